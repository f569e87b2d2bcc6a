run.py --num-layers 1 --hidden-size 1 --num-attention-heads 1 --tensor-model-parallel-size 1024 --vocab-size 1
