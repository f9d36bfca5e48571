// Connections, the environment and hashes for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string>

#include "native/python/bindings.h"
#include "native/wire/connection.h"
#include "native/wire/crypto.h"
#include "native/wire/environment.h"
#include "native/wire/error.h"
#include "native/wire/pool.h"

namespace nb = nanobind;

namespace ignite_strategy {
namespace {

constexpr std::size_t kMaxRandomBytes = 1 << 20;

bool Ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// A connection that several Python threads may share: they take turns, and close() ends whoever waits.
class PythonConnection {
 public:
  PythonConnection(const std::string& host, std::int64_t port, double connect_timeout, double request_timeout,
                   bool pooled, const nb::bytes& security, const std::vector<std::string>& prefixes)
      : pooled_(pooled) {
    if (port < 1 || port > 65535) {
      throw Error(Code::kInvalidArgument, "port " + std::to_string(port) + " is not between 1 and 65535");
    }
    const Timeouts timeouts{Seconds(connect_timeout, "connect_timeout"),
                            Seconds(request_timeout, "request_timeout")};
    endpoint_ = Endpoint{host, static_cast<std::uint16_t>(port), ResolveSecurity(security, prefixes)};
    const Wait wait = PythonWait();
    const WithoutPython unlocked;
    Pool& pool = Pool::Process();
    connection_ = pooled ? pool.Acquire(endpoint_, timeouts, wait) : pool.Open(endpoint_, timeouts, wait);
    version_ = connection_->version().ToString();
    if (connection_->node_id()) node_id_ = connection_->node_id()->ToString();
    has_node_endpoints_ = connection_->Has(Feature::kNodeEndpoints);
    peer_ = connection_->peer();
  }

  ~PythonConnection() { Drop(); }

  nb::bytes Call(std::int64_t op, const nb::bytes& payload, const std::string& doing) {
    if (op < 0 || op > 32767) {
      throw Error(Code::kInvalidArgument, "operation " + std::to_string(op) + " is not between 0 and 32767");
    }
    Wait wait = PythonWait();
    wait.cancellation = closed_;
    Writer writer;
    writer.PutBytes(payload.c_str(), payload.size());
    Response response;
    if (closed_->cancelled()) {
      throw Error(Code::kUnavailable, endpoint() + ": the connection is closed, while " + doing);
    }
    {
      const WithoutPython unlocked;
      const auto lock = Lock(wait, doing);
      if (!connection_)
        throw Error(Code::kUnavailable, endpoint() + ": the connection is closed, while " + doing);
      response = connection_->Call(static_cast<std::int16_t>(op), writer, doing, wait);
    }
    const Reader reader = response.payload();
    return nb::bytes(reinterpret_cast<const char*>(reader.at()), reader.left());
  }

  void Close() {
    closed_->Cancel();
    const WithoutPython unlocked;
    const std::lock_guard<std::timed_mutex> lock(mutex_);
    Drop();
  }

  const std::optional<std::string>& node_id() const { return node_id_; }
  const std::string& version() const { return version_; }
  const std::string& peer() const { return peer_; }
  std::string endpoint() const { return endpoint_.ToString(); }
  bool has_node_endpoints() const { return has_node_endpoints_; }

 private:
  void Drop() {
    if (pooled_) connection_ = Lease();  // back to the pool, if it is fit for that
    connection_.Discard();
  }

  std::unique_lock<std::timed_mutex> Lock(const Wait& wait, const std::string& doing) {
    std::unique_lock<std::timed_mutex> lock(mutex_, std::defer_lock);
    while (!lock.try_lock_for(wait.NextSlice(doing.c_str()))) {
    }
    return lock;
  }

  Endpoint endpoint_;
  std::timed_mutex mutex_;
  bool pooled_;
  Lease connection_;
  std::shared_ptr<Cancellation> closed_ = std::make_shared<Cancellation>();
  std::optional<std::string> node_id_;
  std::string version_;
  std::string peer_;
  bool has_node_endpoints_ = false;
};

nb::dict DatasetDict() {
  const DatasetEnvironment environment = ReadDatasetEnvironment();
  nb::dict dict;
  dict["cache_name"] = environment.cache_name;
  dict["host"] = environment.host;
  dict["port"] = environment.port;
  dict["local"] = environment.local;
  dict["part"] = environment.part;
  dict["page_size"] = environment.page_size;
  dict["assignment"] = environment.assignment;
  return dict;
}

nb::dict FilesystemDict() {
  const FilesystemEnvironment environment = ReadFilesystemEnvironment();
  nb::dict dict;
  dict["host"] = environment.host;
  dict["port"] = environment.port;
  dict["name"] = environment.name;
  dict["backend"] = environment.backend;
  return dict;
}

nb::bytes RandomPythonBytes(std::size_t size) {
  if (size > kMaxRandomBytes) throw Error(Code::kInvalidArgument, "more than 1 MiB of random bytes");
  std::string bytes(size, '\0');
  RandomBytes(bytes.data(), bytes.size());
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

// Whoever has the lock while the interpreter ends is the thread that ends it: there is nobody to give it to,
// and it must not wait for itself.
WithoutPython::WithoutPython() : state_(Ending() ? nullptr : PyEval_SaveThread()) {}

WithoutPython::~WithoutPython() {
  if (state_ == nullptr) return;
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {
    // An interpreter that ends, or began to end meanwhile, ends the threads that want its lock (before
    // Python 3.14), which would unwind through code that must not throw.
    for (;;) pause();
  }
}

Wait PythonWait() {
  Wait wait;
  // Only Python's main thread acts on signals; another one must not touch the interpreter, which may be
  // ending.
  if (getpid() != gettid()) return wait;
  // Python's lock is taken once per slice, not before the first one: a short call pays nothing.
  auto next = std::make_shared<Clock::time_point>(Clock::now() + kWaitSlice);
  wait.check = [next] {
    if (Clock::now() < *next) return;
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    *next = Clock::now() + kWaitSlice;
  };
  return wait;
}

Wait PythonWait(Millis limit) { return PythonWait().Within(limit); }

Millis Seconds(double seconds, const char* name) {
  if (!(seconds > 0 && seconds < 1e6)) {
    throw Error(Code::kInvalidArgument,
                std::string(name) + "=" + std::to_string(seconds) +
                    " is not a time in seconds greater than 0 and less than 1,000,000");
  }
  return std::chrono::ceil<Millis>(std::chrono::duration<double>(seconds));
}

void BindWire(nb::module_& module) {
  nb::class_<PythonConnection>(module, "Connection", "One thin-client connection to an Ignite node.")
      .def(nb::init<const std::string&, std::int64_t, double, double, bool, const nb::bytes&,
                    const std::vector<std::string>&>(),
           nb::arg("host"), nb::arg("port"), nb::arg("connect_timeout") = 5.0,
           nb::arg("request_timeout") = 30.0, nb::arg("pooled") = false,
           nb::arg("security") = nb::bytes("", 0), nb::arg("prefixes") = std::vector<std::string>())
      .def("call", &PythonConnection::Call, nb::arg("op"), nb::arg("payload"), nb::arg("doing"),
           "Sends one request and returns the payload of its response.")
      .def("close", &PythonConnection::Close,
           "Closes the connection; also ends a call that another thread waits in.")
      .def(
          "__enter__", [](PythonConnection& self) -> PythonConnection& { return self; },
          nb::rv_policy::reference)
      .def("__exit__", [](PythonConnection& self, const nb::args&) { self.Close(); })
      .def_prop_ro("node_id", &PythonConnection::node_id, "The node that answered the handshake.")
      .def_prop_ro("version", &PythonConnection::version, "The protocol version in use.")
      .def_prop_ro("endpoint", &PythonConnection::endpoint, "host:port as asked for.")
      .def_prop_ro("peer", &PythonConnection::peer, "The numeric address that answered, with port.")
      .def_prop_ro("has_node_endpoints", &PythonConnection::has_node_endpoints,
                   "The server offers operation 5102.");
  module.def("clear_pool", [] { Pool::Process().Clear(); }, "Closes the idle connections of this process.");
  module.def("dataset_environment", &DatasetDict,
             "The IGNITE_DATASET_* variables and the assignment; None = unset.");
  module.def("filesystem_environment", &FilesystemDict, "The IGFS_* variables; None = unset.");
  module.def("parse_partitions", &ParsePartitions, nb::arg("text"), nb::arg("name"),
             "Reads 3, 0-7,9 or [0, 1, 2]; errors name `name`.");
  module.def("format_partitions", &FormatPartitions, nb::arg("partitions"),
             "The inverse of parse_partitions.");
  module.def(
      "java_hash", [](const std::string& text) { return JavaHash(text); }, nb::arg("text"),
      "Java's String.hashCode.");
  module.def(
      "java_lower_hash", [](const std::string& text) { return JavaLowerHash(text); }, nb::arg("text"),
      "The hash of the lower-cased text, as Ignite computes type ids and field ids.");
  module.def("openssl_version", &OpensslVersion, "The OpenSSL inside this module.");
  module.def("random_bytes", &RandomPythonBytes, nb::arg("size"), "Unpredictable bytes.");
}

}  // namespace ignite_strategy
