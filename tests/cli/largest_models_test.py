"""The largest models: what ZeRO-Infinity claims of 32 DGX-2 [Rajbhandari21 Fig 1], and why it fits."""

from cli_support import INFEASIBLE, CliTest, main

NODES = 32
P = 12 * 203 * 114_688**2  # parameters in products
EMBEDDING = 50_304 * 114_688  # of the vocabulary, padded
ONE_STAGE = ("--tp", "1", "--pp", "1")


class LargestModels(CliTest):
    """32T with ZeRO 3 alone: neither tensor nor pipeline parallel ranks."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.question = ("--model", "32T", "--cluster", f"dgx2x{NODES}", *ONE_STAGE)

    def test_32t_fits_32_nodes_on_nvme(self):
        answer = self.good_json("plan", *self.question)
        self.assertTrue(answer["feasible"])
        plan = answer["plan"]
        self.assertEqual(plan["zero_stage"], 3)
        nvme = answer["memory"]["nvme"]["by_category"]
        # Per node: master copy and two moments of 4 bytes each; tables and vectors are 0.02 % more.
        self.assertAlmostEqual(nvme["optimizer"] / (12 * P / NODES), 1, delta=0.002)
        # The drives alone hold all 16 bytes per parameter.
        self.assertGreater(16 * P / NODES, answer["memory"]["cpu"]["capacity_bytes"])
        self.assertLess(16 * P / NODES, answer["memory"]["nvme"]["capacity_bytes"])

    def test_no_end_of_the_model_is_gathered_whole(self):
        tiled = ("--gather", "tiles:16", "--prefetch", "0", "--params", "nvme", "--grads", "nvme",
                 "--optimizer", "nvme", "--zero", "3", "--micro-batch", "1")
        answer = self.good_json("plan", *self.question, *tiled)
        gathered = answer["memory"]["gpu"]["by_category"]["gathered"]
        # Parameters and gradients of a tile of the largest operator, and of one of the vocabulary,
        # with a shard of either on its way; whole, the embedding would take 4 bytes per element.
        largest = 4 * 114_688**2 // 16
        self.assertLess(gathered, 4 * (largest + EMBEDDING // 16) * 1.5)
        self.assertLess(gathered, 4 * EMBEDDING)

    def test_half_the_nodes_do_not_hold_it(self):
        result = self.zplan("--model", "32T", "--cluster", f"dgx2x{NODES // 2}", *ONE_STAGE)
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertIn("NVMe space per node needed", " ".join(result.stdout.split()))


class FrozenParameters(CliTest):
    """Does 70B fit 24 GB with LoRA [Hu21]: what is frozen leaves the GPU, what is trained stays."""

    def test_70b_is_trained_on_four_gpus_of_24_gb(self):
        answer = self.good_json("plan", "--model", "llama3-70b", "--cluster", "rtx4090-12ssd", "--train",
                                "lora", "--lora-rank", "16", "--global-batch", "8", "--for", "zplan")
        memory = answer["memory"]
        self.assertEqual(answer["plan"]["placement"]["params"], "cpu")
        # Frozen parameters have 2 bytes each and nothing else, off the GPU.
        frozen = memory["cpu"]["by_category"]["parameters"] / 70.55e9
        self.assertAlmostEqual(frozen, 2, delta=0.02)
        for category in ("gradients", "optimizer"):
            self.assertEqual(memory["cpu"]["by_category"][category], 0)
        states = [memory["gpu"]["by_category"][each] for each in ("gradients", "optimizer")]
        self.assertLess(sum(states), 1e9)


if __name__ == "__main__":
    main()
