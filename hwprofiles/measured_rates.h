// What was measured on a device, when the device becomes another one (quantities.h).
#pragma once

#include "hwprofiles/hw_profile.h"

namespace zplan {

// Reads the tables of products and attention as what they are, shares of what this device can do.
// They are read when first asked; to be done before the device is changed, whose times would else
// be as measured, whatever it can do.
void settle_tables(const DeviceProfile& device);

// Nothing of what is known of the device by its name was measured on one like this.
void mark_changed(DeviceProfile& device);

// [derived] Collectives within a node: what they move is so much faster, what passes before is so
// much longer. Of measured times the start is that of the fewest bytes.
struct CollectiveChange {
  double moving = 1;  // of the rate
  double start = 1;   // of the time
};
void scale_collectives(DeviceProfile& device, const CollectiveChange& change);
// [derived] Measured collectives over nodes, as above.
void scale_collectives_over_nodes(DeviceProfile& device, double moving);

}  // namespace zplan
