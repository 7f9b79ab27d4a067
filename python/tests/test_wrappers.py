import gc
import sys
import types
import unittest
import unittest.mock

from elastic import wrappers
from elastic.errors import ElasticError


class Wrapper:
    """A DistributedDataParallel, as far as it matters here."""

    def __init__(self):
        self.hooks = []
        self.reducer, self.logger = object(), object()

    def register_forward_pre_hook(self, hook):
        self.hooks.append(hook)

    def __call__(self):
        for hook in self.hooks:
            hook(self, ())


class Sharded:
    pass


Sharded.__name__, Sharded.__module__ = "FullyShardedDataParallel", "torch.distributed.fsdp"


class WrappersTest(unittest.TestCase):
    def setUp(self):
        module = types.ModuleType("torch.nn.parallel.distributed")
        module.DistributedDataParallel = Wrapper
        patch = unittest.mock.patch.dict(
            sys.modules, {"torch.nn.parallel.distributed": module, "torch.distributed": types.ModuleType("d")}
        )
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_wrapper_of_an_old_world_is_refused(self):
        kept = Wrapper()
        kept()
        wrappers.disarm(3)
        with self.assertRaisesRegex(ElasticError, "of generation 3 is called in another world"):
            kept()
        self.assertNotIn("reducer", kept.__dict__)
        wrappers.disarm(4)
        self.assertEqual(len(kept.hooks), 1)
        Wrapper()()

    def test_sharded_objects_are_found(self):
        self.assertIsNone(wrappers.sharded([Wrapper(), 1, None]))
        sharded = Sharded()
        self.assertEqual(wrappers.sharded([sharded]), "FullyShardedDataParallel")
        self.assertEqual(wrappers.sharded([]), "FullyShardedDataParallel", "one that is in no State")
        del sharded
        gc.collect()

    def test_a_class_of_the_script_is_not_taken_for_one_of_the_framework(self):
        own = type("DTensor", (), {})()
        self.assertIsNone(wrappers.sharded([own]))


if __name__ == "__main__":
    unittest.main()
