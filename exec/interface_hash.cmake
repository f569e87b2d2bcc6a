# Writes OUTPUT, the source of interface_hash.h: the hash of the headers of SOURCE that the program
# and its CUDA plug-in share. The list of them, for DEPENDS, is had by including this file.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(watched CONFIGURE_DEPENDS)
endif()
file(GLOB_RECURSE zplan_shared_headers ${watched}
     ${SOURCE}/exec/*.h ${SOURCE}/planner/*.h ${SOURCE}/models/*.h ${SOURCE}/hwprofiles/*.h)
list(FILTER zplan_shared_headers EXCLUDE REGEX "/exec/cuda/")
if(CMAKE_SCRIPT_MODE_FILE)
  foreach(header IN LISTS zplan_shared_headers)
    file(SHA256 ${header} hash)
    string(APPEND hashes ${hash})
  endforeach()
  string(SHA256 hash "${hashes}")
  file(WRITE ${OUTPUT} "#include \"exec/interface_hash.h\"\n\n"
       "const char* zplan::exec::interface_hash() { return \"${hash}\"; }\n")
endif()
