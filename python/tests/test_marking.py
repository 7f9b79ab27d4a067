import json
import os
import tempfile
import unittest

import elastic


class Saved(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def at(self, *names: str) -> str:
        return os.path.join(self.directory.name, *names)

    def write(self, *names: str) -> str:
        os.makedirs(os.path.dirname(self.at(*names)), exist_ok=True)
        with open(self.at(*names), "w", encoding="utf-8") as file:
            file.write("weights")
        return self.at(*names)

    def test_file(self) -> None:
        elastic.saved(self.write("model.pt"), step=3, samples=96)
        with open(self.at("model.pt.elastic-commit"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"step": 3, "samples": 96})
        self.assertEqual(sorted(os.listdir(self.at())), ["model.pt", "model.pt.elastic-commit"])

    def test_directory(self) -> None:
        self.write("out", "shards", "0.bin")
        os.symlink("nowhere", self.at("out", "link"))
        elastic.saved(self.at("out") + "/")
        with open(self.at("out", ".elastic-commit"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), {})

    def test_what_is_refused(self) -> None:
        path = self.write("model.pt")
        for bad in ({"step": -1}, {"step": True}, {"step": "3"}, {"epochs": 1}):
            with self.assertRaises(elastic.ElasticError, msg=bad):
                elastic.saved(path, **bad)
        with self.assertRaises(elastic.ElasticError):
            elastic.saved(self.at("other.pt"))
        self.assertEqual(os.listdir(self.at()), ["model.pt"])


if __name__ == "__main__":
    unittest.main()
