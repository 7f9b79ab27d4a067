"""What torch does not document is used in one file, and missed by name."""

import pathlib
import re
import types
import unittest

import elastic
from elastic import torch_private

PRIVATE = re.compile(
    r"\btorch(\.\w+)*\._[a-z]|dist(ributed)?\._[a-z]|distributed_c10d|_get_default_group|_pg_map|"
    r"_abort_process_group|_remove_autograd_hooks|\.reducer\b"
)


class Store:
    """What torch calls a store in Python."""


class PrefixStore:
    def __init__(self, prefix, store):
        self._store = store

    def set(self, key, value):
        self._store.set(key, value)


def torch_like(**names):
    world = types.SimpleNamespace(pg_map={"a": 1, "b": 2}, group_count=2)
    c10d = types.SimpleNamespace(_get_default_group=lambda: "a", _world=world)
    return types.SimpleNamespace(**{"distributed_c10d": c10d, "Store": Store, "PrefixStore": PrefixStore, **names})


class TorchPrivateTest(unittest.TestCase):
    def test_no_other_file_uses_private_names(self):
        for path in sorted(pathlib.Path(elastic.__file__).parent.glob("*.py")):
            if path.name == "torch_private.py":
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                self.assertIsNone(PRIVATE.search(line.partition("#")[0]), f"{path.name}:{number}: {line}")

    def test_what_is_missing_is_named(self):
        self.assertIsNone(torch_private.missing(torch_like()))
        none = types.SimpleNamespace()
        world = types.SimpleNamespace(_get_default_group=None, _world=none)
        older = types.SimpleNamespace(_get_default_group=None, _pg_map={})
        deaf = type("PrefixStore", (PrefixStore,), {"set": lambda self, key, value: None})
        for name, dist, missing in (
            ("no groups", torch_like(distributed_c10d=none), "_get_default_group"),
            ("no map", torch_like(distributed_c10d=world), "_world.pg_map"),
            ("another store", torch_like(PrefixStore=deaf), "a Store of Python"),
            ("no distributed", none, "_get_default_group"),
        ):
            with self.subTest(name):
                self.assertIn(missing, torch_private.missing(dist) or "")
        self.assertIsNone(torch_private.missing(torch_like(distributed_c10d=older)), "torch 1.13")

    def test_a_torch_without_all_of_reconfigure_makes_groups_anew(self):
        names = dict.fromkeys(torch_private.RECONFIGURE, True)
        self.assertTrue(torch_private.can_reconfigure(types.SimpleNamespace(**names)))
        for name in names:
            fewer = types.SimpleNamespace(**{n: True for n in names if n != name})
            self.assertFalse(torch_private.can_reconfigure(fewer), name)

    def test_a_wrapper_without_a_known_reducer(self):
        wrapper = types.SimpleNamespace(reducer=1, logger=2)
        self.assertTrue(torch_private.release(wrapper))
        self.assertEqual(wrapper.__dict__, {})
        self.assertFalse(torch_private.release(types.SimpleNamespace(other=1)))


if __name__ == "__main__":
    unittest.main()
