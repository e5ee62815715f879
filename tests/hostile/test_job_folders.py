"""The folder of a stranger's job: asking it connects to no other machine."""

import json
import socket

import pytest

from systems.runtime.wire.control import ControlError
from systems.script.request_channel import FILE, ask


def test_a_job_is_asked_on_the_loopback_alone(tmp_path):
    with socket.create_server(("127.0.0.2", 0)) as elsewhere:
        elsewhere.settimeout(0.2)
        place = {"address": "127.0.0.2", "port": elsewhere.getsockname()[1], "token": "a"}
        (tmp_path / FILE).write_text(json.dumps(place))
        with pytest.raises(ControlError, match="does not listen any more"):
            ask(tmp_path, {}, 5.0)
        with pytest.raises(TimeoutError):
            elsewhere.accept()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"port": "x", "token": ""}', "[" * 5000])
def test_a_damaged_file_is_told(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ControlError, match="damaged"):
        ask(tmp_path, {}, 5.0)


@pytest.mark.parametrize("port", [0, -1, 1 << 40])
def test_a_port_that_is_none_is_told(tmp_path, port):
    (tmp_path / FILE).write_text(json.dumps({"port": port, "token": "a"}))
    with pytest.raises(ControlError):
        ask(tmp_path, {}, 5.0)
