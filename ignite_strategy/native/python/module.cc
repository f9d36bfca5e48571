// The extension module ignite_strategy._core.
#include <nanobind/nanobind.h>

#include "native/python/bindings.h"
#include "native/wire/error.h"

namespace nb = nanobind;

namespace ignite_strategy {
namespace {

// A server's message may be anything: it must not turn into an encoding error.
nb::object Text(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void Translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    try {
      const nb::object python_error = nb::module_::import_("ignite_strategy.errors")
                                          .attr("from_native")(static_cast<int>(error.code()),
                                                               Text(error.message()), error.server_status());
      PyErr_SetObject(python_error.type().ptr(), python_error.ptr());
    } catch (nb::python_error& failure) {
      failure.restore();
    }
  }
}

}  // namespace
}  // namespace ignite_strategy

NB_MODULE(_core, m) {
  m.doc() = "The native part of ignite_strategy: connections, scans and igfs without TensorFlow.";
  // An object that lives until the interpreter ends is no defect of the user's program.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(ignite_strategy::Translate);
  ignite_strategy::BindSecurity(m);
  ignite_strategy::BindWire(m);
  ignite_strategy::BindScan(m);
  ignite_strategy::BindPasses(m);
  ignite_strategy::BindBulk(m);
  ignite_strategy::BindIgfs(m);
}
