"""Names of models and clusters as a user types them: as words, and with what is made of them."""

import json

from cli_support import BAD_INPUT, CliTest, main

QUICK = ("--simulations", "1", "--search-budget", "0", "--threads", "1")


class Names(CliTest):
    def question(self, *words):
        answer = self.good_json(*words, *QUICK)
        return answer["model"]["name"], answer["cluster"]["name"]

    def test_words_are_model_and_cluster(self):
        expected = ("gpt2-1.5b", "dgx-h100x2")
        for words in (("gpt2-xl", "16xH100"), ("plan", "gpt2-xl", "16xH100"),
                      ("plan", "gpt2", "xl", "2", "x", "8", "x", "H100"), ("16xH100", "gpt2-xl"),
                      ("plan", "--model", "GPT2 XL", "2 nodes of 8 H100"),
                      ("gpt2-xl", "--cluster", "H100:16"), ("--zero", "1", "gpt2-xl", "16 H100")):
            self.assertEqual(self.question(*words), expected, words)

    def test_plans_keep_names_that_all_commands_know(self):
        answer = self.good_json("plan", "gpt2-xl", "2x4090", *QUICK, "-o", "p.json")
        self.assertEqual(answer["cluster"]["understood"], [
            "2x4090 is taken for a node of 2 GeForce RTX 4090 24GB as in rtx4090-workstation "
            "(256 GiB of CPU memory and 1 NVMe drive, assumed): PCIe within"])
        plan = json.loads(self.read("p.json"))
        self.assertEqual(plan["hardware"], "rtx4090-workstation{gpus_per_node=2}")
        self.good("simulate", "p.json")
        self.good("memory", "gpt2-xl", "2x4090", *QUICK)
        self.good("memory", "p.json", "2xL40S")
        self.good("why-not", "gpt2-xl", "8xH100", "pipeline", *QUICK)
        self.assertIn("8 x A100", self.good("plan", "gpt2-xl", "8 x A100-80GB", *QUICK))

    def test_all_spellings_of_a_card_are_one_plain_server(self):
        for count, spellings in ((1, ("rtx4090", "RTX4090", "4090", "geforce-4090")),
                                 (2, ("2x4090", "4090x2", "RTX4090x2", "rtx4090:2", "2xrtx4090"))):
            names = {self.good_json("clusters", typed)["clusters"][0]["name"]
                     for typed in spellings}
            self.assertEqual(names, {f"rtx4090-workstation{{gpus_per_node={count}}}"})
            for typed in spellings:
                self.assertIn("(256 GiB of CPU memory and 1 NVMe drive, assumed)",
                              self.good("clusters", typed))
        self.assertIn("1 GPU in all", self.good("clusters", "rtx4090"))

    def test_sequences_are_read_in_binary_thousands(self):
        for typed, tokens in (("4k", 4096), ("4K", 4096), ("8192", 8192)):
            answer = self.good_json("llama3.1-8b", "8xH100", "--seq", typed, *QUICK)
            self.assertEqual(answer["model"]["sequence"], tokens)
        self.bad(BAD_INPUT, "gpt2-xl", "8xH100", "--seq", "4kk", says="or 32k for 32 x 1,024")
        self.bad(BAD_INPUT, "gpt2-xl", "8xH100", "--seq", "0", says="from 1 to")
        self.assertIn("32k is 32,768", self.good("plan", "--help"))

    def test_hints_repeat_the_cluster_that_was_typed(self):
        for typed, counted in (("8xH100", "2x8xH100"), ("H100", "2x8xH100"),
                               ("dgx-h100", "dgx-h100x2")):
            self.bad(BAD_INPUT, "gpt2-xl", typed, "--nodes", "2",
                     says=f"type --cluster {counted}")
        self.bad(BAD_INPUT, "gpt2-xl", "8xH100", "--budget", "$500",
                 says=("--search-budget", "zplan need --price"))

    def test_compare_names_what_compares_clusters_and_plans(self):
        self.bad(BAD_INPUT, "compare", "llama3-70b", "H100x64", "H200x64",
                 says="zplan sweep llama3-70b --over cluster=H100x64,H200x64")
        self.good("plan", "tiny-gpt", "workstation", "-o", "p.json", *QUICK)
        self.bad(BAD_INPUT, "compare", "p.json", "p.json", says="zplan diff p.json")

    def test_next_commands_repeat_the_question(self):
        text = self.good("gpt2-xl", "A100 80GB x8", *QUICK)
        self.assertIn("./zplan plan --model gpt2-xl --cluster 'A100 80GB x8'", text)

    def test_what_is_asked_back_and_what_is_unknown(self):
        self.bad(BAD_INPUT, "gpt2-xl", "12xH100", says=("8xh100 or 16xh100", "got 12"))
        self.bad(BAD_INPUT, "gpt2-xl", "a100", says="a100-40gb or a100-80gb")
        self.bad(BAD_INPUT, "mixtral", "8xH100", says='"mixtral-8x7b" or "mixtral-8x22b"')
        self.bad(BAD_INPUT, "lama3-8b", "8xH100",
                 says='unknown model "lama3-8b"; did you mean "llama3-8b"?')
        self.bad(BAD_INPUT, "gpt2-xl", "8xH101", says='did you mean "8xh100"?')
        self.bad(BAD_INPUT, "plan", "gtp2", "dgx3", says='unknown model "gtp2"; did you mean "gpt2"?')
        self.bad(BAD_INPUT, "--model", "gpt2", "8xH101", says='did you mean "8xh100"?')
        self.bad(BAD_INPUT, "max", "8xH101", says='did you mean "8xh100"?')
        self.bad(BAD_INPUT, "gtp2", "dgx3", says='did you mean "gpt2"?')
        self.bad(BAD_INPUT, "simulat", "p.json", says='did you mean "simulate"?')
        self.bad(BAD_INPUT, "gpt2-xl", says="expected --cluster")
        self.bad(BAD_INPUT, "gpt2-xl", "8xH100", "--nodes", "4", says='"--nodes"')
        self.bad(BAD_INPUT, "plan", "mistralai/Mistral-7B-v0.3", "8xH100",
                 says=("type the path of its config.json", 'did you mean "mistralai/Mistral-7B-v0.1"?'))

    def test_catalogues_know_the_same_names(self):
        self.assertIn("16xH100 is taken for 2 nodes", self.good("clusters", "16xH100"))
        self.assertIn("llama3-8b", self.good("models", "meta-llama/Llama-3-8B-Instruct"))
        self.assertEqual(self.good("clusters", "16xH100", "--template"),
                         self.good("clusters", "dgx-h100", "--template"))

    def test_sizes_of_memories_are_labels(self):
        answer = self.good_json("gpt2-xl", "2x4090", "--set", "cpu.memory=128GB", *QUICK)
        change = [c for c in answer["cluster"]["changes"] if c["quantity"] == "cpu.memory"][0]
        self.assertEqual(change["value"], "128.00 GiB")
        self.assertIn("GB of a memory is a label and means GiB", change["in_place_of"])
        self.assertIn("{gpus_per_node=2,cpu.memory=128GiB}", answer["cluster"]["name"])

    def test_sequences_beyond_rotary_positions_are_remarked_on(self):
        def remarks(model, sequence):
            answer = self.good_json(model, "8xH100", "--seq", sequence, "--global-batch", "8",
                                    *QUICK)
            return [s for s in answer["model"].get("assumed", []) if "beyond" in s]

        self.assertEqual(len(remarks("llama3-8b", "16384")), 1)
        self.assertEqual(remarks("llama3.1-8b", "16384"), [])
        self.assertEqual(remarks("llama3-8b", "8192"), [])
        self.bad(BAD_INPUT, "gpt2-xl", "8xH100", "--seq", "2048", says="1024 positions")


if __name__ == "__main__":
    main()
