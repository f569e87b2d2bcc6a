"""Interleaved pipelines: what is a plan runs through, whatever the number of micro-steps."""

import json

from cli_support import BAD_INPUT, OK, CliTest, main


class Rounds(CliTest):
    def setUp(self):
        super().setUp()
        self.good("--model", "tiny-gpt", "--cluster", "dgx-h100", "--pp", "2", "--zero", "0",
                  "--global-batch", "8", "--micro-batch", "1", "-o", "plan.json")
        self.plan = json.loads(self.read("plan.json"))

    def code(self, pp, chunks, micro_steps):
        self.plan["model"] = "gpt2-124m"
        self.plan["parallel"].update(dp=1, tp=1, pp=pp, schedule="interleaved", chunks=chunks)
        self.plan["gather"]["unit"] = "layer"
        self.plan["batch"].update(micro_batch=1, global_batch=micro_steps, sequence=128)
        self.write("plan.json", json.dumps(self.plan))
        return self.zplan("simulate", "plan.json").returncode

    def test_each_number_of_micro_steps_is_simulated_or_refused(self):
        for pp, chunks in ((2, 2), (3, 2), (4, 3)):
            for micro_steps in range(1, 2 * pp + 3):
                with self.subTest(pp=pp, chunks=chunks, micro_steps=micro_steps):
                    is_plan = micro_steps % pp == 0 or micro_steps <= 2 * (pp - 1)
                    self.assertEqual(self.code(pp, chunks, micro_steps),
                                     OK if is_plan else BAD_INPUT)


if __name__ == "__main__":
    main()
