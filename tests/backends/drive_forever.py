"""A driver that trains for ever, to be killed: BACKEND START FOLDER."""

import sys
from pathlib import Path

from tests.backends.world import World, configured, warm_launcher

if __name__ == "__main__":
    name, start, folder = sys.argv[1:]
    launcher = warm_launcher()
    launcher.open()
    world = World(configured("backend", name, start=start), launcher, Path(folder))
    world.until_change(world.start((0, 1)))
    print("training", flush=True)
    while True:
        world.backend.poll(1.0)
