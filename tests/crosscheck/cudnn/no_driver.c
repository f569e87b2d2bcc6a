// The driver library of a machine without a GPU, for cuDNN to load: it says that there is no
// device, and gives a handle for every kernel that a plan wants compiled. All other functions of
// cuda.h are in a source that no_driver.cmake makes; they do nothing and succeed.
#define _GNU_SOURCE
#include <dlfcn.h>

static char handle;

static int give(void** result) {
  *result = &handle;
  return 0;
}
static int succeed(void) { return 0; }

int cuInit(unsigned flags) {
  (void)flags;
  return 100;  // CUDA_ERROR_NO_DEVICE
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuLibraryLoadData(void** library) { return give(library); }
int cuLibraryGetKernel(void** kernel) { return give(kernel); }
int cuKernelGetFunction(void** function) { return give(function); }
int cuModuleLoadData(void** module) { return give(module); }
int cuModuleGetFunction(void** function) { return give(function); }

int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags,
                        int* status) {
  (void)version, (void)flags;
  *function = dlsym(RTLD_DEFAULT, name);
  if (*function == 0) *function = (void*)succeed;
  if (status != 0) *status = 0;
  return 0;
}
int cuGetProcAddress(const char* name, void** function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, 0);
}
