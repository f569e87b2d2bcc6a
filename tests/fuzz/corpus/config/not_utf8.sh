torchrun --nproc_per_node 4 -m torchtitan.train --module llama3 --config llama3_8b \
  --training.lóocal_batch_size 2 --training.seq-len 4096 --training.global_batch_size 64 \
  --parallelism.tensor_parallel_degree 2 --training.enable_cpu_offload activation-checkpoint:full
