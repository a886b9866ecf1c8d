# SPDX-License-Identifier: Apache-2.0
"""gdb's printers of Tessera's types: arrays, shardings, shapes, instructions, modules.

gdb loads this file with libtessera.so, from share/gdb/auto-load; otherwise: source FILE.

    (gdb) print x                     f32[8,16], NamedSharding(...)
    (gdb) print *instruction          dot.3 = f32[8,32]{1,0} dot(x, w), ...
    (gdb) tessera values x            the elements of an array
    (gdb) tessera text *module        the whole text of a module

The texts are made by the library, in the program that is debugged. Without a running program, as in a core file, what
debug information tells is shown. `set print raw-values`, or print/r, shows the fields.
"""
import re

import gdb
import gdb.printing
import gdb.types

# The types, and what tessera_debug_text calls them.
KINDS = {
    r"tessera::Array": "array",
    r"tessera::(Named|SingleDevice|Positional|Pmap|GSPMD)?Sharding": "sharding",
    r"tessera::PartitionSpec": "spec",
    r"tessera::Mesh": "mesh",
    r"tessera::Shape": "shape",
    r"tessera::TensorSharding": "tensor_sharding",
    r"tessera::ir::Instruction": "instruction",
    r"tessera::ir::Computation": "computation",
    r"tessera::ir::Module": "module",
}


def kind_of(type_):
    name = gdb.types.get_basic_type(type_).tag or ""
    for pattern, kind in KINDS.items():
        if re.fullmatch(pattern, name):
            return kind
    return None


def is_running():
    """Whether functions of the program can be called: not in a core file, nor before it starts."""
    if gdb.selected_thread() is None:
        return False
    return "core dump file" not in gdb.execute("info target", to_string=True)


def library_text(kind, value):
    """The text that the library makes of the object; None if it can't be asked."""
    if value.address is None or not is_running():
        return None
    # A fault within the library ends the call, not the program.
    saved = gdb.parameter("unwindonsignal")
    gdb.execute("set unwindonsignal on", to_string=True)
    try:
        # gdb puts the name of the kind into the program's memory.
        call = '((const char* (*)(const char*, const void*))tessera_debug_text)("%s", (const void*)%d)'
        return gdb.parse_and_eval(call % (kind, int(value.address))).string()
    except gdb.error:
        return None
    finally:
        gdb.execute("set unwindonsignal " + ("on" if saved else "off"), to_string=True)


# --- what debug information tells ---------------------------------------------------------------


def integers(vector):
    """The elements of a std::vector of numbers."""
    begin, end = vector["_M_impl"]["_M_start"], vector["_M_impl"]["_M_finish"]
    return [int(begin[i]) for i in range(int(end - begin))]


def shape_text(shape):
    if shape["is_tuple"]:
        return "a tuple"
    dtype = str(shape["dtype"]).split("::")[-1]
    return dtype + "[" + ",".join(str(n) for n in integers(shape["dims"])) + "]"


def string(value):
    return value["_M_dataplus"]["_M_p"].string(length=int(value["_M_string_length"]))


def fields_text(kind, value):
    if kind == "shape":
        return shape_text(value)
    if kind == "array":
        impl = value["impl_"]["_M_ptr"]
        return "empty array" if int(impl) == 0 else shape_text(impl["shape"])
    if kind == "instruction":
        opcode = str(value["opcode"]).split("::")[-1]
        return "%s = %s %s" % (string(value["name"]), shape_text(value["shape"]), opcode)
    if kind == "computation":
        return "computation " + string(value["name_"])
    if kind == "module":
        return "module " + string(value["name"])
    return None


class Printer:
    def __init__(self, kind, value):
        self.kind = kind
        self.value = value

    def to_string(self):
        text = library_text(self.kind, self.value)
        if text is None:
            try:
                text = fields_text(self.kind, self.value)
            except (gdb.error, RuntimeError):
                pass
        if text is None:
            text = "<%s: the library can't be asked without a running program>" % self.kind
        return text


class Printers(gdb.printing.PrettyPrinter):
    def __init__(self):
        super().__init__("tessera", [])

    def __call__(self, value):
        kind = kind_of(value.type)
        return Printer(kind, value) if kind else None


# --- commands -----------------------------------------------------------------------------------


class Tessera(gdb.Command):
    """Texts of Tessera's objects."""

    def __init__(self):
        super().__init__("tessera", gdb.COMMAND_DATA, prefix=True)


class Text(gdb.Command):
    """tessera text EXPRESSION: the whole text of a module, or of whatever else has one."""

    def __init__(self, name="tessera text", kinds=None):
        super().__init__(name, gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)
        self.kinds = kinds or {"module": "module_text"}

    def invoke(self, argument, from_tty):
        value = gdb.parse_and_eval(argument)
        while value.type.strip_typedefs().code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF):
            value = value.referenced_value()
        kind = kind_of(value.type)
        if kind is None:
            raise gdb.GdbError("%s is a %s, which is none of Tessera's types" % (argument, value.type))
        text = library_text(self.kinds.get(kind, kind), value)
        if text is None:
            raise gdb.GdbError("the library can't be asked without a running program")
        print(text)


class Values(Text):
    """tessera values ARRAY: its elements. Waits for them if they are still being computed."""

    def __init__(self):
        super().__init__("tessera values", {"array": "values"})


gdb.printing.register_pretty_printer(gdb.current_objfile(), Printers(), replace=True)
Tessera()
Text()
Values()
