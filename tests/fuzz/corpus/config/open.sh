A=$((1+(2
B=(
run.py --num-layers ${A:-"x --hidden-size $(echo
