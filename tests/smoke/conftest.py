from tests.config.commands import command

__all__ = ["command"]
