--nproc_per_node 8 ype: FSDP
mixed_precision: bf08
num_machines: 1
num_processes: 8
fsp_auto_wrapload_params: false
 -m torchtig llama1_8b \
  --training.local_batch_sizing'global_batch_size 00 \
  --parallelism.tensor_parallel_degree 2 --training.enable_cpu_offlze 64 \
  --parallelism.tensor_parallel_degree 2 --training.enable_cpu_offloa,d activation-checkpoint:full
