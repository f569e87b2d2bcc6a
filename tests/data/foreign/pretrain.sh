#!/bin/bash
# Qwen3-8B on 8 nodes of 8 H100
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${SLURM_NNODES:-8}
TP=2
PP=2
DISTRIBUTED_ARGS=(--nproc_per_node $GPUS_PER_NODE --nnodes $NUM_NODES)
MODEL_ARGS="
  --num-layers 36 --hidden-size 4096 --ffn-hidden-size 12288
  --num-attention-heads 32 --group-query-attention --num-query-groups 8
  --kv-channels 128 --qk-layernorm --swiglu --normalization RMSNorm
  --disable-bias-linear --position-embedding-type rope --rotary-base 1000000
  --untie-embeddings-and-output-weights --vocab-size 151936
"
torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py $MODEL_ARGS \
  --seq-length 4096 --max-position-embeddings 40960 \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --sequence-parallel \
  --micro-batch-size 1 --global-batch-size $((GPUS_PER_NODE * NUM_NODES * 4)) \
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
  --bf16 --attention-dropout 0 --hidden-dropout 0 --lr 1e-4 --train-iters 1000 \
  --data-path $DATA_PATH
