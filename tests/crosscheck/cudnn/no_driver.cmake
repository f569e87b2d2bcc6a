# Writes OUTPUT, a C source in which every function that cuda.h (HEADER) names returns 0, unless
# no_driver.c has it.
#   cmake -DHEADER=cuda.h -DOUTPUT=names.c -P no_driver.cmake
file(READ ${HEADER} text)
string(REGEX REPLACE "[^A-Za-z0-9_]+" " " text "${text}")
string(REGEX MATCHALL " cu[A-Z][A-Za-z0-9_]*" names "${text}")
list(TRANSFORM names STRIP)
list(REMOVE_DUPLICATES names)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/no_driver.c own REGEX "^int cu")
list(TRANSFORM own REPLACE "^int (cu[A-Za-z0-9_]+).*" "\\1")
list(REMOVE_ITEM names ${own})
set(source "__asm__(\".text\\n\"\n")
foreach(name IN LISTS names)
  string(APPEND source "        \".globl ${name}\\n${name}:\\n\"\n")
endforeach()
string(APPEND source "        \"xorl %eax, %eax\\nret\\n\");\n")
file(WRITE ${OUTPUT} "${source}")
