"""Damage to the files that grilly reads: bytes, JSON, safetensors, ZIP files, pickles and SentencePiece models."""

import copy
import io
import json
import pickletools
import struct
import warnings
import zipfile
import zlib

from fuzz.driver import pick

#: Values in place of a number, a text, a list.
ODD = [0, 1, -1, 2, 3, 7, 63, 64, 65, 1000, 2**31 - 1, 2**31, 2**32, 2**53, 2**63, 2**64, 10**30, 0.5, -0.0, 1e-12]
ODD += [1e12, 1e308, True, False, None, "", "a", "0", "é", "\0", "../x", "/", [], {}, [0], [[]], {"a": 1}, "x" * 300]
#: Parts of JSON that its writers do not write.
RAW = [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1e-999", b"01", b"-", b'"\\ud800"', b'"\xff"', b"[" * 200, b"{"]
RAW += [b'{"a":1,"a":2}', b"\xef\xbb\xbf", b"//", b"1" * 400]


def of_bytes(data, chance):
    """Bytes changed at random, cut, exchanged, put in."""
    data, size = bytearray(data), len(data)
    kind = int(chance.integers(8)) if size > 8 else 6
    if kind < 2:
        data[chance.integers(size)] ^= 1 << int(chance.integers(8))
    elif kind == 2:
        for place in chance.integers(size, size=chance.integers(2, 9)):
            data[place] = chance.integers(256)
    elif kind == 3:
        return cut(data, chance)
    elif kind == 4:
        first, second = sorted(chance.integers(size, size=2).tolist())
        del data[first : max(second, first + 1)]
    elif kind == 5:
        length = int(chance.integers(1, max(size // 4, 2)))
        a, b = chance.integers(size - length, size=2).tolist()
        data[a : a + length], data[b : b + length] = data[b : b + length], data[a : a + length]
    elif kind == 6:
        return chance.bytes(int(chance.integers(200)))
    else:
        place = int(chance.integers(size))
        data[place:place] = chance.bytes(int(chance.integers(1, 40)))
    return bytes(data)


def cut(data, chance):
    """The first bytes."""
    return bytes(data[: chance.integers(len(data))]) if data else b""


# ----------------------------------------------------------------------------------------------------------------- JSON


def places(value, most=4000):
    """Each object or list with a key in it, at most so many."""
    found, ahead = [], [value]
    while ahead and len(found) < most:
        each = ahead.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        found += [(each, key) for key in keys]
        ahead += [each[key] for key in keys if isinstance(each[key], dict | list)]
    return found


def of_value(value, chance):
    """Changes one place of a JSON value and returns the value."""
    where = places(value)
    if not where:
        return copy.deepcopy(pick(chance, ODD))
    # As often at the top as in long lists and vocabularies.
    top = [place for place in where if place[0] is value or len(place[0]) < 30]
    owner, key = pick(chance, top if top and chance.random() < 0.8 else where)
    kind, old = int(chance.integers(7)), owner[key]
    if kind == 0:
        del owner[key]
    elif kind == 1 and isinstance(old, int | float) and not isinstance(old, bool):
        owner[key] = pick(chance, [old + 1, old - 1, -old, old * 2, old // 2, float(old), str(old), old + 0.5])
    elif kind == 2:
        other, its = pick(chance, where)
        owner[key] = json.loads(json.dumps(other[its]))
    elif kind == 3 and isinstance(owner, list):
        owner.insert(int(chance.integers(len(owner) + 1)), json.loads(json.dumps(old)))
    elif kind == 3:
        owner[pick(chance, [str(key) + "s", "a", "", str(key).upper()])] = owner.pop(key)
    elif kind == 4 and isinstance(old, str) and old:
        at = int(chance.integers(len(old)))
        owner[key] = pick(chance, [old[:at], old[:at] + "é" + old[at:], old.upper(), old[::-1], old * 50, f"{old}\0"])
    else:
        owner[key] = copy.deepcopy(pick(chance, ODD))
    return value


def of_json(data, chance):
    """A JSON file with another value in a place, or other letters."""
    if chance.random() < 0.25:
        return of_bytes(data, chance)
    try:
        value = json.loads(data)
        for _ in range(int(chance.integers(1, 3))):
            value = of_value(value, chance)
    except (ValueError, RecursionError):
        return of_bytes(data, chance)
    text = json.dumps(value, ensure_ascii=bool(chance.integers(2))).encode(errors="replace")
    if chance.random() < 0.15:
        at = [place for place, byte in enumerate(text) if byte in b":,["]
        if at:
            place = pick(chance, at) + 1
            text = text[:place] + pick(chance, RAW) + text[place:]
    return text


def same_json(data, chance):
    """The same value in other letters: the keys of each object in another order, other spaces."""

    def shuffled(value):
        if isinstance(value, dict):
            keys = list(value)
            chance.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(each) for each in value] if isinstance(value, list) else value

    value = shuffled(json.loads(data))
    return json.dumps(value, indent=pick(chance, [None, 0, 1, 4]), ensure_ascii=bool(chance.integers(2))).encode()


# ---------------------------------------------------------------------------------------------------------- safetensors


def parts(data):
    """Header and body of a safetensors file."""
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def joined(header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


TYPES = ["F64", "F32", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL", "F8_E4M3", "X", 1]


def of_header(data, chance):
    """Another header over the same body."""
    header, body = parts(data)
    names = [name for name in header if name != "__metadata__"]
    kind, name = int(chance.integers(8)), pick(chance, names)
    entry = header[name]
    if kind == 0:
        entry["dtype"] = pick(chance, TYPES)
    elif kind == 1:
        axes = entry["shape"]
        entry["shape"] = pick(chance, [axes[::-1], [*axes, 1], axes[1:], [0, *axes], [2**63, 2], [-1], [*axes, 2]])
    elif kind == 2:
        first, last = entry["data_offsets"]
        shift = pick(chance, [1, 4, -4, 2**32, 2**63])
        entry["data_offsets"] = pick(chance, [[last, first], [first + shift, last + shift], [first, last + shift]])
    elif kind == 3:
        other = header[pick(chance, names)]
        entry["data_offsets"], other["data_offsets"] = other["data_offsets"], entry["data_offsets"]
    elif kind == 4:
        (length,) = struct.unpack("<Q", data[:8])
        wrong = pick(chance, [0, 1, length - 1, length + 1, length + 8, len(data), 2**31, 2**63, 2**64 - 1])
        return struct.pack("<Q", wrong) + data[8:]
    elif kind == 5:
        return joined(of_json(json.dumps(header).encode(), chance), body)
    elif kind == 6:
        return joined(header, body + chance.bytes(int(chance.integers(1, 9))))
    else:
        return joined(of_value(header, chance), body)
    return joined(header, body)


def without_tensor(data, chance):
    """One tensor left out, or called otherwise."""
    header, body = parts(data)
    name = pick(chance, [name for name in header if name != "__metadata__"])
    entry = header.pop(name)
    if chance.random() < 0.5:
        header[pick(chance, [name[:-1], f"{name}x", f"x.{name}", name.upper()])] = entry
        return joined(header, body)
    # Its bytes are left out, too, as a gap is refused in any case.
    first, last = entry["data_offsets"]
    for other in header.values():
        if "data_offsets" in other and other["data_offsets"][0] >= last:
            other["data_offsets"] = [place - (last - first) for place in other["data_offsets"]]
    return joined(header, body[:first] + body[last:])


def of_numbers(data, chance):
    """Other numbers under the same header."""
    header, body = parts(data)
    changed = bytearray(body)
    for place in chance.integers(len(body), size=pick(chance, [1, 1, 5, 100])):
        changed[place] = pick(chance, [0, 0x7F, 0x80, 0xFF, int(chance.integers(256))])
    return joined(header, bytes(changed))


def same_tensors(data, chance):
    """The same tensors in another order, with other metadata and spaces after the header."""
    header, body = parts(data)
    names = [name for name in header if name != "__metadata__"]
    chance.shuffle(names)
    made, moved = {"__metadata__": {"format": "pt", "more": "x" * int(chance.integers(9))}}, b""
    for name in names:
        first, last = header[name]["data_offsets"]
        made[name] = {**header[name], "data_offsets": [len(moved), len(moved) + last - first]}
        moved += body[first:last]
    if chance.random() < 0.5:
        made["__metadata__"] = made.pop("__metadata__")
    return joined(json.dumps(made).encode() + b" " * int(chance.integers(9)), moved)


# ------------------------------------------------------------------------------------------------------ ZIP and pickles


def found(data, mark):
    place = data.find(mark)
    while place >= 0:
        yield place
        place = data.find(mark, place + 1)


def of_tables(data, chance):
    """Another number of 2 or 4 bytes in one of the tables of a ZIP file."""
    data = bytearray(data)
    marks = [place for mark in (b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\6", b"PK\6\7") for place in found(data, mark)]
    if not marks:
        return of_bytes(data, chance)
    at = pick(chance, marks) + int(chance.integers(4, 46))
    value = pick(chance, [0, 1, 8, 99, 0x7FFF, 0xFFFF, 2**31 - 1, 2**32 - 1])
    form = "<H" if value < 2**16 and chance.random() < 0.5 else "<I"
    data[at : at + struct.calcsize(form)] = struct.pack(form, value)
    return bytes(data)


def rezipped(data, chance, change=None):
    """Parts changed, exchanged, left out or compressed, in a ZIP file with right checksums."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            entries = [(name, bytearray(file.read(name))) for name in file.namelist()]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        return of_bytes(data, chance)  # damaged before
    kind = int(chance.integers(6))
    place, other = chance.integers(len(entries), size=2).tolist()
    name, content = entries[place]
    if change is not None:
        entries = [(name, change(name, bytes(content))) for name, content in entries]
    elif kind == 0 and content:
        content[chance.integers(len(content))] ^= 1 << int(chance.integers(8))
    elif kind == 1:
        entries[place], entries[other] = (name, entries[other][1]), (entries[other][0], content)
    elif kind == 2:
        del entries[place]
    elif kind == 3:
        digits = [at for at, byte in enumerate(content[:4000]) if chr(byte).isdigit()]
        if digits:
            content[pick(chance, digits)] = ord(pick(chance, "0123456789"))
    elif kind == 5:
        entries.insert(other, (name, of_bytes(content, chance)))
    made, stored = io.BytesIO(), zipfile.ZIP_DEFLATED if kind == 4 and change is None else zipfile.ZIP_STORED
    with zipfile.ZipFile(made, "w", stored) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, content in entries:
            file.writestr(name, bytes(content))
    return made.getvalue()


def of_zip(data, chance):
    """A ZIP file damaged in its bytes, its tables or its parts."""
    try:
        return pick(chance, [of_bytes, of_tables, of_tables, rezipped, rezipped])(data, chance)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError):
        return of_bytes(data, chance)


def operations(data):
    """The operations of a pickle, each with its argument: their bytes."""
    starts = [place for _, _, place in pickletools.genops(data)]
    return [data[first:last] for first, last in zip(starts, [*starts[1:], len(data)], strict=True)]


#: Operations that a pickle of torch may have, or has not: small numbers, marks, the memo, calls, names.
OPERATIONS = [
    *(
        b"(",
        b"0",
        b"1",
        b"2",
        b"N",
        b"]",
        b"}",
        b")",
        b"t",
        b"\x85",
        b"\x86",
        b"\x87",
        b"R",
        b"b",
        b"s",
        b"u",
        b"a",
        b"e",
    ),
    *(b"K\x00", b"K\xff", b"M\xff\xff", b"J\xff\xff\xff\x7f", b"J\x00\x00\x00\x80", b"\x88", b"\x89", b"Q", b"."),
    *(b"\x8a\x09" + b"\xff" * 8 + b"\x00", b"\x8b\xff\xff\xff\x7f", b"G\x7f\xf8" + b"\0" * 6, b"P1\n", b"\x93"),
    *(b"q\x00", b"h\x00", b"h\xff", b"j\xff\xff\xff\xff", b"\x94", b"\x80\x02", b"\x80\x05", b"\x95" + b"\xff" * 8),
    *(b"X\x01\x00\x00\x00a", b"X\xff\xff\xff\xff", b"B\xff\xff\xff\x7f", b"cos\nsystem\n"),
    *(b"ctorch\nFloatStorage\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ccollections\nOrderedDict\n"),
]


def of_pickle(data, chance):
    """Operations of a pickle left out, twice, exchanged, put in, with another argument."""
    try:
        steps = operations(data)
    except Exception:  # any of a pickle that was damaged before
        return of_bytes(data, chance)
    for _ in range(int(chance.integers(1, 4))):
        place, other = chance.integers(len(steps), size=2).tolist()
        kind = int(chance.integers(6))
        if kind == 0:
            steps[place] = b""
        elif kind == 1:
            steps.insert(other, steps[place])
        elif kind == 2:
            steps[place], steps[other] = steps[other], steps[place]
        elif kind == 3:
            steps.insert(place, pick(chance, OPERATIONS))
        elif kind == 4:
            steps[place] = pick(chance, OPERATIONS)
        elif len(steps[place]) > 1:
            step = bytearray(steps[place])
            step[chance.integers(1, len(step))] = pick(chance, [0, 1, 2, 0x7F, 0xFF, int(chance.integers(256))])
            steps[place] = bytes(step)
    return b"".join(steps)


def of_archive(data, chance):
    """A file of `torch.save`: its ZIP file or the pickle in it."""
    if chance.random() < 0.4:
        return of_zip(data, chance)
    try:
        return rezipped(data, chance, lambda name, part: of_pickle(part, chance) if name.endswith(".pkl") else part)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError):
        return of_bytes(data, chance)


# ------------------------------------------------------------------------------------------------- SentencePiece models


def fields(data):
    """The fields of a message of protocol buffers, each as tag, length and content; None where it is none."""
    made, place = [], 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    try:
        while place < len(data):
            start, tag = place, varint()
            if tag & 7 == 0:
                varint()
                made.append((data[start:place], None))
            elif tag & 7 == 2:
                head, length = data[start:place], varint()
                made.append((head, data[place : place + length]))
                place += length
            else:
                place += {1: 8, 5: 4}[tag & 7]
                made.append((data[start:place], None))
    except (IndexError, KeyError):
        return None
    return made


def written(value):
    """A varint."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def of_pieces(data, chance, levels=2):
    """A SentencePiece model with a field left out, twice, exchanged, damaged in it, or of a length that is a lie."""
    made = fields(data)
    if not made or chance.random() < 0.15:
        return of_bytes(data, chance)
    if chance.random() < 0.4:  # what is not a piece: normalizer and trainer
        rare = [n for n, (head, _) in enumerate(made) if head != b"\x0a"]
        place = pick(chance, rare) if rare else 0
    else:
        place = int(chance.integers(len(made)))
    other, kind, lie = int(chance.integers(len(made))), int(chance.integers(6)), None
    head, content = made[place]
    if kind == 0:
        del made[place]
    elif kind == 1:
        made.insert(other, made[place])
    elif kind == 2:
        made[place], made[other] = made[other], made[place]
    elif kind == 3 and content is not None:
        lie = pick(chance, [0, 1, len(content) + 1, 2**31, 2**63, 2**64 - 1])
    elif content is not None and levels:
        made[place] = head, of_pieces(content, chance, levels - 1)
    else:
        made[place] = (of_bytes(head, chance) if len(head) > 1 else head, content)
    return b"".join(
        head + (b"" if content is None else written(lie if n == place and lie is not None else len(content)) + content)
        for n, (head, content) in enumerate(made)
    )
