"""A module that starts a thread when it is imported, which no pre-imported one may."""

import threading

threading.Thread(target=threading.Event().wait, name="busybody", daemon=True).start()
