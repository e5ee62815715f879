"""The end of a pre-importing process that has not imported everything yet."""

import signal

from systems.launchers import preimported


def test_closing_does_not_wait_for_imports(tmp_path, monkeypatch):
    monkeypatch.setattr(preimported, "CLOSE_TIMEOUT_S", None)  # it would be waited for, for ever
    (tmp_path / "never_imported.py").write_text("import signal\nsignal.pause()\n")
    process = preimported.Preimported(["never_imported"], {"PYTHONPATH": str(tmp_path)})
    process.close()
    assert process._process.returncode == -signal.SIGKILL
