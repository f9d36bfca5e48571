#include "native/python/bindings.h"

namespace ignite_strategy {

void BindScan(nanobind::module_& module) {}

}  // namespace ignite_strategy
