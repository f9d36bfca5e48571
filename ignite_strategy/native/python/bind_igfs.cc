#include "native/python/bindings.h"

namespace ignite_strategy {

void BindIgfs(nanobind::module_& module) {}

}  // namespace ignite_strategy
