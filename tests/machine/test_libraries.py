from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from autoaccel.machine.libraries import ALLOCATOR_STEMS, OPENMP_STEMS, find_libraries, library_folders
from autoaccel.records.machine import Library

OWN_HEADER = Path(sys.executable).read_bytes()[:20]
needs_elf = pytest.mark.skipif(not OWN_HEADER.startswith(b"\x7fELF"), reason="programs are no ELF files here")


def install(folder: Path, name: str, content: bytes = OWN_HEADER) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / name
    library.write_bytes(content)
    return str(library)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("libjemalloc.so.2", "jemalloc"),
        ("libjemalloc.so", "jemalloc"),
        ("libjemalloc.2.dylib", "jemalloc"),
        ("libtcmalloc.so.4.5.9", "tcmalloc"),
        ("libtcmalloc_minimal.so.4", "tcmalloc"),
        ("libmimalloc.so.2.1", "mimalloc"),
    ],
)
def test_allocators_are_known_by_their_file_names(tmp_path, file, name):
    path = install(tmp_path, file)
    assert find_libraries(ALLOCATOR_STEMS, [tmp_path]) == (Library(name, path),)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("libgomp.so.1", "libgomp"),
        ("libgomp-a34b3233.so.1", "libgomp"),
        ("libiomp5.so", "libiomp5"),
        ("libomp.so.5", "libomp"),
        ("libomp.dylib", "libomp"),
    ],
)
def test_openmp_runtimes_are_known_by_their_file_names(tmp_path, file, name):
    path = install(tmp_path, file)
    assert find_libraries(OPENMP_STEMS, [tmp_path]) == (Library(name, path),)


@pytest.mark.parametrize(
    "file",
    [
        "libtcmalloc_debug.so.4",
        "libtcmalloc_and_profiler.so.4",
        "libtcmalloc_minimal_debug.so.4",
        "libmimalloc-secure.so.2",
        "libjemalloc.a",
        "libjemalloc.so.2.bak",
        "jemalloc.so",
        "libompd.so",
        "libgomp-plugin-nvptx.so.1",
        "libc_malloc_debug.so",
    ],
)
def test_their_neighbours_are_something_else(tmp_path, file):
    install(tmp_path, file)
    assert find_libraries({**ALLOCATOR_STEMS, **OPENMP_STEMS}, [tmp_path]) == ()


def test_the_first_folder_counts_and_names_are_sorted(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    tcmalloc = install(first, "libtcmalloc.so.4")
    install(second, "libtcmalloc_minimal.so.4")
    jemalloc = install(second, "libjemalloc.so.2")
    found = find_libraries(ALLOCATOR_STEMS, [tmp_path / "missing", first, second])
    assert found == (Library("jemalloc", jemalloc), Library("tcmalloc", tcmalloc))


def test_in_one_folder_the_minimal_tcmalloc_counts(tmp_path):
    install(tmp_path, "libtcmalloc.so.4")
    minimal = install(tmp_path, "libtcmalloc_minimal.so.4")
    assert find_libraries(ALLOCATOR_STEMS, [tmp_path]) == (Library("tcmalloc", minimal),)


def test_the_path_has_no_links_left(tmp_path):
    real = install(tmp_path / "versions", "libjemalloc.so.2.3")
    (tmp_path / "libjemalloc.so.2").symlink_to(real)
    assert find_libraries(ALLOCATOR_STEMS, [tmp_path]) == (Library("jemalloc", real),)


@needs_elf
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"/* GNU ld script */ INPUT(libjemalloc.a)",
        OWN_HEADER[:4] + bytes([3 - OWN_HEADER[4]]) + OWN_HEADER[5:],  # 32 bits where this process has 64
        OWN_HEADER[:18] + b"\xff\xff",  # another processor
    ],
)
def test_what_a_process_could_not_load_is_passed_over(tmp_path, content):
    first, second = tmp_path / "first", tmp_path / "second"
    install(first, "libjemalloc.so.2", content)
    good = install(second, "libjemalloc.so.2")
    assert find_libraries(ALLOCATOR_STEMS, [first, second]) == (Library("jemalloc", good),)


@needs_elf
def test_a_library_need_not_be_a_program(tmp_path):
    # Bytes 16 and 17 tell fixed programs (2) from what can lie anywhere (3); the interpreter may be either.
    other_kind = bytes(5 - byte if byte else 0 for byte in OWN_HEADER[16:18])
    path = install(tmp_path, "libjemalloc.so.2", OWN_HEADER[:16] + other_kind + OWN_HEADER[18:])
    assert find_libraries(ALLOCATOR_STEMS, [tmp_path]) == (Library("jemalloc", path),)


def test_a_dead_link_is_passed_over(tmp_path):
    (tmp_path / "libjemalloc.so").symlink_to(tmp_path / "gone")
    assert find_libraries(ALLOCATOR_STEMS, [tmp_path]) == ()


def test_where_programs_are_no_elf_files_any_file_will_do(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", install(tmp_path, "python", b"\xcf\xfa\xed\xfe"))
    (tmp_path / "libmimalloc.dylib").symlink_to(tmp_path / "gone")
    path = install(tmp_path, "libomp.dylib", b"\xca\xfe\xba\xbe")
    assert find_libraries({**ALLOCATOR_STEMS, **OPENMP_STEMS}, [tmp_path]) == (Library("libomp", path),)


def test_folders_are_looked_through_in_order(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "torch"
    package.mkdir(parents=True)
    # Importing it would fail.
    (package / "__init__.py").write_text("raise SystemExit('torch was imported')")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path / 'named'}::{tmp_path / 'also'}")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    root = tmp_path / "root"
    folders = library_folders(root)
    expected = [
        package / "lib",
        package.parent / "torch.libs",
        tmp_path / "named",
        tmp_path / "also",
        tmp_path / "environment" / "lib",
        root / "usr/local/lib",
    ]
    assert list(folders[: len(expected)]) == expected
    assert root / f"usr/lib/{platform.machine()}-linux-gnu" in folders
    assert root / "usr/lib64" in folders


def test_without_torch_there_is_no_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert library_folders(tmp_path)[0] == (Path(sys.prefix) / "lib").resolve()


def test_a_folder_under_two_names_is_looked_through_once(tmp_path, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    folders = library_folders(tmp_path)
    assert tmp_path / "lib" not in folders
    assert folders.count(tmp_path / "usr/lib") == 1
