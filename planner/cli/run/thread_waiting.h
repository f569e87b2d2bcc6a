// How the threads inside the kernels of a rank wait for each other. Where no variable says
// otherwise and there are cores enough, libgomp spins 300,000 times before it sleeps. Beside a
// program that needs one of these cores, each wait then takes the other thread's time.
// [GOMP "GOMP_SPINCOUNT"]
#pragma once

namespace zplan {

// Has libgomp spin kSpins times and then sleep, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT says how
// to wait. libgomp reads its variables when it is loaded, so the program begins anew with them:
// call this ahead of anything that would then be done twice.
inline constexpr int kSpins = 1000;
void wait_briefly();

}  // namespace zplan
