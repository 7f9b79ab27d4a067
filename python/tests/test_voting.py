import unittest

from elastic import voting
from elastic.group import free_number
from elastic.leaving import is_of_communication


class VotingTest(unittest.TestCase):
    def test_the_lowest_rank_with_the_largest_step_gives_its_state(self):
        for steps, giver, takers in (
            ([None, None], None, []),
            ([3, 3, 3], 0, []),
            ([3, 4, 4], 1, [0]),
            ([None, 0], 1, [0]),
            ([5, None, 4], 0, [1, 2]),
            ([0, None], 0, [1]),
        ):
            places = [None if step is None else [step, 0] for step in steps]
            prints = [None if step is None else step * 7 for step in steps]
            self.assertEqual((voting.source(places), voting.takers(places, prints)), (giver, takers), steps)

    def test_ranks_whose_state_differs_take_that_of_the_lowest(self):
        places = [[3, 1], [3, 1], [3, 0], [3, 1]]
        self.assertEqual(voting.source(places), 0)
        self.assertEqual(voting.takers(places, [7, 8, 7, 7]), [1, 2])

    def test_the_end_of_an_epoch_counts(self):
        self.assertEqual(voting.source([[4, 0], [4, 1]]), 1)

    def test_states_older_than_the_checkpoint_give_way_to_it(self):
        for steps, checkpoint, behind in (
            ([None, None], None, True),
            ([None, 0], None, False),
            ([4, None], 4, False),
            ([3, 4], 5, True),
        ):
            places = [None if step is None else [step, 0] for step in steps]
            self.assertEqual(voting.behind(places, checkpoint), behind, (steps, checkpoint))

    def test_chunks_are_the_whole_once(self):
        for total in (0, 1, voting.CHUNK - 1, voting.CHUNK, voting.CHUNK + 1, 5 * voting.CHUNK):
            covered = [(begin, end) for begin, end in voting.chunks(total)]
            self.assertEqual(sum(end - begin for begin, end in covered), total)
            self.assertEqual([begin for begin, _ in covered], [0, *(end for _, end in covered)][: len(covered)])

    def test_each_new_process_has_a_number_of_its_own(self):
        for numbers in ([None, None, None], [0, None, 2, None], [5, None], [1, 0, None, None]):
            mine = [free_number(numbers, rank) if n is None else n for rank, n in enumerate(numbers)]
            self.assertEqual(len(set(mine)), len(mine), mine)
            self.assertLess(max(n for n, was in zip(mine, numbers) if was is None), 2 * len(numbers))


class ErrorsTest(unittest.TestCase):
    def test_errors_of_a_lost_rank_are_told_from_those_of_the_script(self):
        class DistBackendError(RuntimeError):
            pass

        chained = ValueError("no")
        chained.__cause__ = RuntimeError("Connection closed by peer [127.0.0.1]:1")
        for error in (
            RuntimeError("[../gloo/transport/tcp/pair.cc:598] Connection closed by peer"),
            RuntimeError("NCCL communicator was aborted"),
            DistBackendError("x"),
            ConnectionResetError(),
            chained,
        ):
            self.assertTrue(is_of_communication(error), error)
        for error in (
            KeyError("peer"),
            RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
            ValueError("lr"),
            OSError(28, "No space left on device"),
        ):
            self.assertFalse(is_of_communication(error), error)


if __name__ == "__main__":
    unittest.main()
