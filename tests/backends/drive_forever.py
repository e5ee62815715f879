"""A driver that trains for ever, to be killed or stopped: BACKEND START FOLDER [HANG_TIMEOUT_S].

With a time-out it prints what is reported of a loss, and how far the job is.
"""

import sys
from pathlib import Path

from tests.backends.world import World, configured, warm_launcher

if __name__ == "__main__":
    name, start, folder, *limit = sys.argv[1:]
    choices = {"hang_timeout_s": float(limit[0])} if limit else {}
    launcher = warm_launcher()
    launcher.open()
    world = World(configured("backend", name, start=start, **choices), launcher, Path(folder))
    world.until_change(world.start((0, 1)))
    print("training", flush=True)
    while True:
        for report in world.backend.poll(1.0):
            if limit:
                print(report.kind, report.step, report.reason, flush=True)
