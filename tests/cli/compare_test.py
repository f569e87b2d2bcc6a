"""zplan compare: a simulation beside a run of the same plan, and what it refuses."""

import json

from cli_support import BAD_INPUT, OK, CliTest, main


class Compare(CliTest):
    def timelines(self, *pins, tag="", steps=6):
        """Writes the timelines of a simulation and a run of `steps` steps; returns their names."""
        plan = self.tiny_plan(*pins, name=f"plan{tag}.json")
        names = f"sim{tag}.json", f"exec{tag}.json"
        self.good("simulate", plan, "--timeline", names[0])
        self.good("run", plan, "--steps", str(steps), "--timeline", names[1])
        return names

    def test_joins_every_operation(self):
        sim, ran = self.timelines("--dp", "2", "--zero", "3")
        compared = self.good_json("compare", sim, ran)
        self.assertEqual(compared["schema"], "zplan.comparison/1")
        self.assertEqual(compared["joined_by"], "operation")
        self.assertEqual(compared["measured"]["steps"], 5)
        self.assertEqual(compared["measured"]["fingerprint"], compared["predicted"]["fingerprint"])
        self.assertEqual(compared["only_predicted"]["operations"], 0)
        self.assertEqual(compared["only_measured"]["operations"], 0)
        self.assertGreater(compared["step"]["ratio"], 0)
        spans = json.loads(self.read(ran))["ranks"][0]["spans"]
        total = sum(span["step"] == 1 for span in spans)
        for split in ("kinds", "phases", "lanes", "parts"):
            rows = compared[split]
            self.assertEqual(sum(row["measured_operations"] for row in rows), total, split)
            for row in rows:
                times = row["predicted_s"], row["measured_s"]
                self.assertEqual(row["ratio"], times[1] / times[0] if times[0] else None)
            self.assertAlmostEqual(
                sum(row["predicted_s"] for row in rows), compared["total"]["predicted_s"]
            )
        self.assertLessEqual(
            {"kernel", "collective"}, {row["name"] for row in compared["kinds"]}
        )

    def test_shows_a_table(self):
        text = self.good("compare", *self.timelines("--dp", "2", "--zero", "3"))
        for words in ("measured/predicted", "by phase", "  backward", "by lane", "  comm_reduce"):
            self.assertIn(words, text)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_warns_of_few_steps(self):
        for steps, says in ((1, "1 measured step "), (5, "4 measured steps ")):
            result = self.zplan("compare", *self.timelines(steps=steps))
            self.assertEqual(result.returncode, OK)
            self.one_line(result.stderr, ["warning: medians over " + says, "6 steps or more"])
        self.assertEqual(self.zplan("compare", *self.timelines(steps=6)).stderr, "")

    def test_different_plans_join_by_role_only(self):
        sim, _ = self.timelines("--dp", "2", "--zero", "3")
        _, ran = self.timelines("--dp", "1", tag="-other")
        self.bad(BAD_INPUT, "compare", sim, ran, says=["different jobs", "--by role"])
        result = self.zplan("compare", sim, ran, "--by", "role", "--json")
        self.assertEqual(result.returncode, OK)
        self.one_line(result.stderr, ["warning", "different jobs"])
        compared = json.loads(result.stdout)
        self.assertEqual(compared["joined_by"], "role")
        self.assertGreater(compared["only_predicted"]["operations"], 0)  # gathers

    def test_refuses_what_it_cannot_compare(self):
        sim, ran = self.timelines()
        self.bad(
            BAD_INPUT, "compare", ran, sim,
            says=f"{ran}: expected the timeline of a simulation, got that of a run",
        )
        self.bad(BAD_INPUT, "compare", sim, sim, says=f"{sim}: expected the timeline of a run")
        self.bad(BAD_INPUT, "compare", sim, says="expected two timelines")
        self.bad(BAD_INPUT, "compare", sim, "missing.json", says="missing.json")
        self.bad(BAD_INPUT, "compare", sim, self.write("broken.json", "{"), says="broken.json:1")
        self.bad(BAD_INPUT, "compare", sim, "plan.json", says="zplan diff plan.json")
        self.bad(BAD_INPUT, "compare", sim, ran, "--by", "lane", says="operation or role")


if __name__ == "__main__":
    main()
