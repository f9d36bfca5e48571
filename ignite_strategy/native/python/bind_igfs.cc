// igfs for Python without TensorFlow: paths and bytes in, values out; no Python lock is held while the
// network is busy.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "native/igfs/backend.h"
#include "native/igfs/copy.h"
#include "native/igfs/path.h"
#include "native/igfs/target.h"
#include "native/igfs/tree.h"
#include "native/python/bindings.h"
#include "native/python/igfs_unlocked.h"

namespace nb = nanobind;

namespace ignite_strategy {
namespace {

class PythonReader {
 public:
  explicit PythonReader(std::unique_ptr<igfs::ReadableFile> reader) : reader_(std::move(reader)) {}

  // A read beyond the end costs no memory; a file that has grown meanwhile is read on by the next call.
  nb::bytes ReadAt(std::uint64_t offset, std::size_t size) {
    const std::uint64_t known = std::max(reader_->size(), offset);
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(size, known - offset + kLookAhead));
    // Nobody else knows the object yet: it is filled in place, without the lock.
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(most));
    if (bytes == nullptr) throw nb::python_error();
    std::size_t got = 0;
    try {
      char* const out = PyBytes_AS_STRING(bytes);
      got = Unlocked([&](const Wait& wait) { return reader_->Read(offset, most, out, wait); });
    } catch (...) {
      Py_DECREF(bytes);
      throw;
    }
    if (got < most && _PyBytes_Resize(&bytes, static_cast<Py_ssize_t>(got)) != 0) throw nb::python_error();
    return nb::steal<nb::bytes>(bytes);
  }
  std::size_t ReadInto(std::uint64_t offset, nb::handle memory) {
    const PythonMemory buffer(memory, PyBUF_WRITABLE);
    return Unlocked(
        [&](const Wait& wait) { return reader_->Read(offset, buffer.size(), buffer.data(), wait); });
  }
  std::uint64_t size() const { return reader_->size(); }

 private:
  static constexpr std::uint64_t kLookAhead = 1 << 16;
  std::unique_ptr<igfs::ReadableFile> reader_;
};

class PythonWriter {
 public:
  explicit PythonWriter(std::unique_ptr<igfs::WritableFile> writer) : writer_(std::move(writer)) {}

  std::size_t Write(nb::handle memory) {
    const PythonMemory buffer(memory, PyBUF_SIMPLE);
    Unlocked([&](const Wait& wait) { writer_->Append(buffer.data(), buffer.size(), wait); });
    return buffer.size();
  }
  void Flush() {
    Unlocked([&](const Wait& wait) { writer_->Flush(wait); });
  }
  void Close() {
    Unlocked([&](const Wait& wait) { writer_->Close(wait); });
  }
  // What was not published is dropped.
  void Abandon() {
    Unlocked([&](const Wait&) { writer_->Abandon(); });
  }
  std::uint64_t Tell() const { return writer_->Tell(); }

 private:
  std::unique_ptr<igfs::WritableFile> writer_;
};

nb::dict StatusDict(const igfs::Status& status) {
  nb::dict dict;
  dict["is_directory"] = status.is_directory;
  dict["size"] = status.size;
  dict["mtime"] = static_cast<double>(status.mtime) / 1e9;
  return dict;
}

igfs::Mode ParseMode(const std::string& mode) {
  if (mode == "w") return igfs::Mode::kReplace;
  if (mode == "a") return igfs::Mode::kAppend;
  if (mode == "x") return igfs::Mode::kExclusive;
  throw Error(Code::kInvalidArgument, "mode '" + mode + "' is none of w, a and x");
}

class PythonFileSystem {
 public:
  PythonFileSystem(const std::optional<std::string>& host, std::optional<std::int64_t> port,
                   const std::optional<std::string>& name, const std::optional<nb::bytes>& security,
                   const std::optional<std::string>& backend) {
    igfs::Location location;
    location.host = host.value_or("");
    location.file_system = name.value_or("");
    if (port && (*port < 1 || *port > 65535)) {
      throw Error(Code::kInvalidArgument, "port " + std::to_string(*port) + " is not between 1 and 65535");
    }
    if (port && location.host.empty()) location.host = "localhost";
    if (port) location.port = static_cast<std::uint16_t>(*port);
    std::optional<SecuritySettings> settings;
    if (security) settings = SecuritySettings::Parse(std::string(security->c_str(), security->size()));
    std::optional<igfs::BackendKind> kind;
    if (backend) kind = igfs::ParseBackend(*backend, "backend");
    backend_ = igfs::Backend::Mount(igfs::ResolveTarget(location, settings ? &*settings : nullptr, kind));
  }

  nb::dict Stat(const std::string& path) {
    return StatusDict(
        Unlocked([&](const Wait& wait) { return backend_->GetStatus(igfs::ParsePath(path), wait); }));
  }
  nb::list List(const std::string& path) {
    const auto children =
        Unlocked([&](const Wait& wait) { return backend_->List(igfs::ParsePath(path), wait); });
    nb::list list;
    for (const auto& [name, status] : children) list.append(nb::make_tuple(name, StatusDict(status)));
    return list;
  }
  void MakeDirectory(const std::string& path) {
    Unlocked([&](const Wait& wait) { backend_->MakeDirectory(igfs::ParsePath(path), wait); });
  }
  void MakeDirectories(const std::string& path) {
    Unlocked([&](const Wait& wait) { backend_->MakeDirectories(igfs::ParsePath(path), wait); });
  }
  void RemoveFile(const std::string& path) {
    Unlocked([&](const Wait& wait) { backend_->RemoveFile(igfs::ParsePath(path), wait); });
  }
  void RemoveDirectory(const std::string& path) {
    Unlocked([&](const Wait& wait) { backend_->RemoveDirectory(igfs::ParsePath(path), wait); });
  }
  void RemoveTree(const std::string& path) {
    Unlocked([&](const Wait& wait) { backend_->RemoveTree(igfs::ParsePath(path), wait); });
  }
  void Rename(const std::string& source, const std::string& target) {
    Unlocked(
        [&](const Wait& wait) { backend_->Rename(igfs::ParsePath(source), igfs::ParsePath(target), wait); });
  }
  void Copy(const std::string& source, const std::string& target) {
    Unlocked([&](const Wait& wait) {
      igfs::CopyFile(*backend_, igfs::ParsePath(source), *backend_, igfs::ParsePath(target), wait);
    });
  }
  std::unique_ptr<PythonReader> OpenRead(const std::string& path) {
    return std::make_unique<PythonReader>(
        Unlocked([&](const Wait& wait) { return backend_->OpenRead(igfs::ParsePath(path), wait); }));
  }
  std::unique_ptr<PythonWriter> OpenWrite(const std::string& path, const std::string& mode) {
    const igfs::Mode parsed = ParseMode(mode);
    return std::make_unique<PythonWriter>(
        Unlocked([&](const Wait& wait) { return backend_->OpenWrite(igfs::ParsePath(path), parsed, wait); }));
  }
  nb::dict Usage() { return MeasureTree(Caches()); }
  nb::dict Check(bool repair, bool offline, const nb::object& progress) {
    return CheckTree(Caches(), repair, offline, progress);
  }
  void Tend() {
    Unlocked([&](const Wait& wait) { backend_->Tend(wait); });
  }
  std::string target() const { return backend_->target().ToString(); }
  std::string backend() const {
    return backend_->target().kind == igfs::BackendKind::kEndpoint ? "endpoint" : "caches";
  }

 private:
  igfs::Tree& Caches() const {
    igfs::Tree* tree = backend_->tree();
    if (tree != nullptr) return *tree;
    throw Error(
        Code::kUnimplemented,
        backend_->target().ToString() +
            ": IGFS keeps its files itself and does not let its caches be looked into; only a file system "
            "on caches can be measured and checked");
  }

  std::shared_ptr<igfs::Backend> backend_;
};

}  // namespace

void BindIgfs(nb::module_& module) {
  nb::class_<PythonReader>(module, "FileReader", "A file of igfs that is open for reading.")
      .def("read_at", &PythonReader::ReadAt, nb::arg("offset"), nb::arg("size"),
           "What there is of these bytes; less than `size` only at the end of the file.")
      .def("read_into", &PythonReader::ReadInto, nb::arg("offset"), nb::arg("memory"),
           "Fills the memory with what follows `offset`; returns how many bytes that were.")
      .def_prop_ro("size", &PythonReader::size);
  nb::class_<PythonWriter>(module, "FileWriter", "A file of igfs that is open for writing.")
      .def("write", &PythonWriter::Write, nb::arg("memory"), "Returns how many bytes that were.")
      .def("flush", &PythonWriter::Flush, "Publishes everything written so far.")
      .def("close", &PythonWriter::Close, "Publishes the rest.")
      .def("abandon", &PythonWriter::Abandon, "Closes without publishing what was not published yet.")
      .def("tell", &PythonWriter::Tell);
  nb::class_<PythonFileSystem>(module, "FileSystem", "One file system of an Ignite cluster.")
      .def(nb::init<const std::optional<std::string>&, std::optional<std::int64_t>,
                    const std::optional<std::string>&, const std::optional<nb::bytes>&,
                    const std::optional<std::string>&>(),
           nb::arg("host") = nb::none(), nb::arg("port") = nb::none(), nb::arg("name") = nb::none(),
           nb::arg("security") = nb::none(), nb::arg("backend") = nb::none())
      .def("stat", &PythonFileSystem::Stat, nb::arg("path"))
      .def("list", &PythonFileSystem::List, nb::arg("path"))
      .def("mkdir", &PythonFileSystem::MakeDirectory, nb::arg("path"))
      .def("makedirs", &PythonFileSystem::MakeDirectories, nb::arg("path"))
      .def("remove", &PythonFileSystem::RemoveFile, nb::arg("path"))
      .def("rmdir", &PythonFileSystem::RemoveDirectory, nb::arg("path"))
      .def("rmtree", &PythonFileSystem::RemoveTree, nb::arg("path"))
      .def("rename", &PythonFileSystem::Rename, nb::arg("source"), nb::arg("target"))
      .def("copy", &PythonFileSystem::Copy, nb::arg("source"), nb::arg("target"))
      .def("open_read", &PythonFileSystem::OpenRead, nb::arg("path"))
      .def("open_write", &PythonFileSystem::OpenWrite, nb::arg("path"), nb::arg("mode") = "w")
      .def("usage", &PythonFileSystem::Usage, "What there is, in numbers.")
      .def("check", &PythonFileSystem::Check, nb::arg("repair") = false, nb::arg("offline") = false,
           nb::arg("progress") = nb::none(), "What should not be there, or is missing.")
      .def("tend", &PythonFileSystem::Tend, "Frees what is due, of what nobody needs any more.")
      .def_prop_ro("target", &PythonFileSystem::target, "FILE_SYSTEM@host:port,...")
      .def_prop_ro("backend", &PythonFileSystem::backend, "What keeps the files: caches or endpoint.");
  module.def(
      "set_default_cluster",
      [](const std::string& addresses, const nb::bytes& security) {
        igfs::SetDefaultCluster(addresses, std::string(security.c_str(), security.size()));
      },
      nb::arg("addresses"), nb::arg("security"),
      "The addresses for igfs paths and file systems that name no host: host:port,host:port, or nothing; and "
      "their security settings.");
}

}  // namespace ignite_strategy
