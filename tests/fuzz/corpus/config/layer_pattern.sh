run.py --num-layers 4 --hidden-size 8 --num-attention-heads 2 --num-experts 2 --moe-layer-freq ([0]*x+[1]*99999999999999999999)
