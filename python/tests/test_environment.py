import types
import unittest

from elastic import ElasticError, environment

from .worlds import being


class EnvironmentTest(unittest.TestCase):
    def test_plain_python(self):
        w = environment.read({})
        self.assertEqual((w.rank, w.size, w.generation, w.batch_size, w.accumulation), (0, 1, 1, 32, 1))
        self.assertEqual((w.lr, w.loss_weight, w.resume_from, w.managed), (0.1, 1.0, None, False))

    def test_the_scripts_own_values(self):
        w = environment.read({"RANK": "1", "WORLD_SIZE": "4"}, batch_size=16, lr=0.5)
        self.assertEqual((w.batch_size, w.micro_batch_size, w.lr), (16, 4, 0.5))

    def test_elastic_run(self):
        w = environment.read(
            {
                "ELASTIC_JOB_ID": "x",
                "ELASTIC_NODE": "b",
                "ELASTIC_GENERATION": "3",
                "ELASTIC_PREVIOUS_WORLD_SIZE": "2",
                "ELASTIC_RESUME_FROM": "/c/step-120",
                "ELASTIC_GLOBAL_BATCH_SIZE": "512",
                "ELASTIC_BATCH_SIZE": "128",
                "ELASTIC_GRAD_ACCUM_STEPS": "1",
                "ELASTIC_LOSS_WEIGHT": "1",
                "ELASTIC_LR": "0.2",
                "ELASTIC_LR_SCALE": "2",
                "ELASTIC_WARMUP_SAMPLES": "0",
                "ELASTIC_DRAIN_FILE": "/r/drain",
                "RANK": "3",
                "LOCAL_RANK": "1",
                "WORLD_SIZE": "4",
                "GROUP_RANK": "1",
            },
            batch_size=7,
            lr=9,
        )
        self.assertEqual((w.rank, w.local_rank, w.node_rank, w.size), (3, 1, 1, 4))
        self.assertEqual((w.job, w.node, w.generation, w.previous_size), ("x", "b", 3, 2))
        self.assertEqual((w.micro_batch_size, w.batch_size, w.lr), (128, 512, 0.2))
        self.assertEqual((w.resume_from, w.managed), ("/c/step-120", True))

    def test_a_batch_of_the_script_is_the_same_in_every_world(self):
        for size in ("1", "4"):
            w = environment.read({"WORLD_SIZE": size, "ELASTIC_LR_SCALE": "2"}, batch_size=8, lr=0.1)
            self.assertEqual((w.batch_size, w.micro_batch_size, w.lr), (8, 8 // int(size), 0.1))

    def test_without_batch_and_rate_both_follow_the_world(self):
        w = environment.read({"WORLD_SIZE": "4", "ELASTIC_LR_SCALE": "2"}, lr=0.1)
        self.assertEqual((w.batch_size, w.lr), (128, 0.2))

    def test_torchrun_and_paddle(self):
        w = environment.read({"RANK": "2", "WORLD_SIZE": "3", "TORCHELASTIC_RESTART_COUNT": "4"})
        self.assertEqual((w.rank, w.size, w.generation), (2, 3, 5))
        w = environment.read({"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_RANK_IN_NODE": "1"})
        self.assertEqual((w.rank, w.size, w.local_rank), (1, 2, 1))

    def test_nonsense_is_refused(self):
        for variables, words in (
            ({"RANK": "two"}, "RANK=two: not a whole number"),
            ({"RANK": "2", "WORLD_SIZE": "2"}, "ranks are 0 to 1"),
            ({"ELASTIC_LR": "fast"}, "ELASTIC_LR=fast: not a number"),
            ({"ELASTIC_LR": "nan"}, "ELASTIC_LR"),
            ({"WORLD_SIZE": "9", "ELASTIC_GLOBAL_BATCH_SIZE": "8"}, "each needs a sample"),
            ({"ELASTIC_GLOBAL_BATCH_SIZE": "9", "ELASTIC_GRAD_ACCUM_STEPS": "2"}, "not whole"),
        ):
            with self.assertRaisesRegex(ElasticError, words):
                environment.read(variables)
        for arguments in ({"batch_size": 0}, {"batch_size": 1.5}, {"lr": 0}, {"lr": -1}, {"lr": float("nan")}, {"lr": "1"}):
            with self.assertRaises(ElasticError):
                environment.read({}, **arguments)

    def test_the_rate_climbs_in_a_warmup(self):
        w = environment.read(
            {
                "ELASTIC_LR": "0.4",
                "ELASTIC_LR_SCALE": "4",
                "ELASTIC_WARMUP_BEGIN": "1000",
                "ELASTIC_WARMUP_SAMPLES": "100",
                "ELASTIC_WARMUP_LR_SCALE": "2",
            }
        )
        for position, rate in ((0, 0.2), (1000, 0.2), (1050, 0.3), (1100, 0.4), (9999, 0.4)):
            w._samples = lambda position=position: position
            self.assertAlmostEqual(w.lr, rate)

    def test_set_lr(self):
        w = environment.read({}, lr=0.5)
        torch_like = types.SimpleNamespace(param_groups=[{"lr": 9}, {"lr": 9}])
        w.set_lr(torch_like, factor=0.1)
        self.assertEqual(torch_like.param_groups, [{"lr": 0.05, "elastic_base": 9}, {"lr": 0.05, "elastic_base": 9}])
        seen = []
        w.set_lr(types.SimpleNamespace(set_lr=seen.append))
        self.assertEqual(seen, [0.5])

    def test_one_world_for_each_process(self):
        with being(None):
            first = environment.world()
            self.assertIs(environment.world(batch_size=8, lr=0.3), first)
            self.assertEqual((first.batch_size, first.global_batch_size, first.lr), (8, 8, 0.3))
