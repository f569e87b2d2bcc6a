"""What papers print and counting contradicts, and what leaves the GPU: each shown by its command."""

import re
import shlex

from cli_support import INFEASIBLE, OK, CliTest, main


class Claims(CliTest):
    def test_every_claim_is_shown_by_its_command(self):
        claims = self.good_json("bandwidth", "--paper")["claims"]
        self.assertGreaterEqual(len(claims), 10)
        for claim in claims:
            with self.subTest(claim=claim["what"]):
                self.assertRegex(claim["source"], r"^\[[A-Za-z]+[0-9]{2}")
                self.assertIn(self.zplan(*shlex.split(claim["command"])[1:]).returncode,
                              (OK, INFEASIBLE))

    def test_1t_with_its_states_on_512_gpus_does_not_fit(self):
        claims = self.good_json("bandwidth", "--paper")["claims"]
        claim = next(each for each in claims if each["what"].startswith("all states of 1T"))
        result = self.zplan(*shlex.split(claim["command"])[1:])
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertIn("GPU memory per GPU needed", " ".join(result.stdout.split()))


class Placement(CliTest):
    def test_zero_offloads_choice_comes_out_of_counting(self):
        for model, cluster in (("10B", "dgx2"), ("llama3-8b", "dgx-h100")):
            answer = self.good_json("explain", "--model", model, "--cluster", cluster, "placement")
            least = answer["least_traffic"]
            self.assertEqual((least["params"], least["grads"], least["optimizer"]),
                             ("gpu", "cpu", "cpu"))
            # 4 M bytes cross and 2 of 16 M stay [Ren21 sec 3]; vocabularies are padded.
            self.assertAlmostEqual(least["crosses"], 4, delta=0.01)
            self.assertAlmostEqual(least["kept"], 2, delta=0.01)
            self.assertEqual(len(answer["cuts"]), 8)

    def test_people_read_the_choice_first(self):
        text = self.good("explain", "--model", "10B", "--cluster", "dgx2", "--for", "zplan",
                         "placement")
        self.assertRegex(text, r"^With states off the GPU least traffic between GPU and CPU, then most")
        self.assertTrue(re.search(r"4\.00 B +2\.00 B +8\.00 x +least traffic", text))


if __name__ == "__main__":
    main()
