run.py --per_device_train_batch_size 1 "--a
b"
