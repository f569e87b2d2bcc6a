"""python -m zplan"""

from zplan import main

main()
