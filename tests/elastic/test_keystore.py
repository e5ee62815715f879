"""What every key store promises, over every store; and what ours builds upon in torch's."""

import threading
from datetime import timedelta

import pytest
from torch._C._distributed_c10d import TCPStore

from systems.elastic.election.keystore import StoreLost
from tests.elastic.stores import KINDS, WAIT_S


@pytest.fixture(scope="module", params=KINDS)
def server(request):
    process = KINDS[request.param]()
    yield process
    process.kill()


@pytest.fixture
def open_one(server):
    opened = []

    def open_one():
        opened.append(server.open())
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def key(request):
    return request.node.name


def test_a_key_is_void_until_it_is_set(open_one, key):
    store = open_one()
    assert store.get(key) is None
    assert not store.compare_and_swap(key, "something", "a")
    assert store.get(key) is None
    assert store.compare_and_swap(key, None, "a")
    assert open_one().get(key) == "a"


def test_a_swap_needs_what_it_expects(open_one, key):
    store, other = open_one(), open_one()
    assert store.compare_and_swap(key, None, "a")
    assert not other.compare_and_swap(key, None, "b")
    assert not other.compare_and_swap(key, None, "a")
    assert not other.compare_and_swap(key, "b", "a")
    assert other.compare_and_swap(key, "a", "b|1")
    assert not store.compare_and_swap(key, "a", "b|1")
    assert store.compare_and_swap(key, "b|1", "b|1")
    assert store.get(key) == "b|1"


def test_an_erased_key_is_void_again(open_one, key):
    store, other = open_one(), open_one()
    assert not store.erase(key, "a")
    assert store.compare_and_swap(key, None, "a")
    assert not other.erase(key, "b")
    assert other.erase(key, "a")
    assert not store.erase(key, "a")
    assert store.get(key) is None
    assert store.compare_and_swap(key, None, "a")


def test_an_empty_text_cannot_be_stored(open_one, key):
    with pytest.raises(ValueError, match="empty"):
        open_one().compare_and_swap(key, None, "")


def test_of_many_threads_one_swap_wins(open_one, key):
    store = open_one()
    start = threading.Barrier(8)
    won = []

    def run(index):
        start.wait()
        for turn in range(20):
            expected = None if turn == 0 else f"turn {turn - 1}"
            # All write the same text: still only one of them has done it.
            if store.compare_and_swap(key, expected, f"turn {turn}"):
                won.append((turn, index))
            start.wait()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(turn for turn, _ in won) == list(range(20))


def count(make_store, ready, go):
    store = make_store()
    ready.release()
    go.wait(WAIT_S)
    done = 0
    while done < 100:
        seen = store.get("counter")
        done += store.compare_and_swap("counter", seen, str(int(seen or 0) + 1))


def test_who_count_together_lose_nothing(server, open_one):
    ready, go = threading.Semaphore(0), threading.Event()
    threads = [threading.Thread(target=count, args=(open_one, ready, go)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert ready.acquire(timeout=WAIT_S)
    go.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert open_one().get("counter") == "300"


def test_watchers_are_woken_by_a_change(open_one, key):
    writer, watchers = open_one(), [open_one() for _ in range(3)]
    woken = [threading.Event() for _ in watchers]
    for watcher, event in zip(watchers, woken, strict=True):
        watcher.watch(key, event.set)
    for change in (
        lambda: writer.compare_and_swap(key, None, "a"),
        lambda: watchers[0].compare_and_swap(key, "a", "b"),
        lambda: writer.erase(key, "b"),
    ):
        for event in woken:
            event.clear()
        assert change()
        assert all(event.wait(WAIT_S) for event in woken)


def test_a_watcher_that_has_gone_is_no_trouble(open_one, key):
    writer, gone, stays = open_one(), open_one(), open_one()
    woken = threading.Event()
    gone.watch(key, lambda: None)
    stays.watch(key, woken.set)
    gone.close()
    assert writer.compare_and_swap(key, None, "a")
    assert woken.wait(WAIT_S)


def test_a_closed_store_is_lost_and_its_threads_end(open_one, key):
    store = open_one()
    store.watch(key, lambda: None)
    watching = [thread for thread in threading.enumerate() if thread.name == f"watch {key}"]
    assert len(watching) == 1
    store.close()
    store.close()
    watching[0].join(WAIT_S)
    assert not watching[0].is_alive()
    with pytest.raises(StoreLost):
        store.get(key)


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_store_is_told(kind):
    server = KINDS[kind]()
    store, woken = server.open(), threading.Event()
    store.watch("key", woken.set)
    server.kill()
    assert woken.wait(WAIT_S)
    for act in (
        lambda: store.get("key"),
        lambda: store.compare_and_swap("key", None, "a"),
        lambda: store.erase("key", "a"),
        lambda: store.watch("key", woken.set),
        server.open,
    ):
        with pytest.raises(StoreLost):
            act()
    store.close()


def test_what_tcp_keystore_builds_upon_in_torch():
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = TCPStore("127.0.0.1", server.port, is_master=False, timeout=timedelta(seconds=WAIT_S))
    # A missing key: nothing is set, but the answer is what we expected, not what is there.
    assert client.compare_set("key", "x", "y") == b"x"
    assert not client.check(["key"])
    assert client.compare_set("key", "?", "?") == b"?"
    assert not client.check(["key"])
    # An empty expectation means a missing or empty key, not "whatever it holds".
    assert client.compare_set("key", "", "a") == b"a"
    assert client.compare_set("key", "", "b") == b"a"
    assert client.compare_set("key", "a", "c") == b"c"
    assert client.compare_set("key", "a", "d") == b"c"
