"""The program starts, plans and simulates where neither CUDA's libraries nor a driver are."""

import re
import subprocess

from cli_support import PROGRAM, CliTest, main


class Libraries(CliTest):
    def test_none_of_cuda(self):
        listed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
        self.assertIn("libc.so", listed)
        found = [line.strip() for line in listed.splitlines()
                 if re.search(r"cuda|cublas|cudnn|nccl|nvrtc|nvidia", line, re.IGNORECASE)]
        self.assertEqual(found, [])


if __name__ == "__main__":
    main()
