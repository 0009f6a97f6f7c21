// Runs an exported kernel on a GPU of Apple's through Metal; needs no grilly.
//
// python -m grilly export softmax_dropout --target msl --option p=0.0 --rows 4 --out softmax.metal
// swiftc -O examples/launch_metal.swift -o launch_metal && ./launch_metal softmax.json

import Foundation
import Metal

struct Buffer: Decodable {
    let name, kind: String
    let bytes: Int
    let place: Int?
    let dtype: String?
    let shape: [Int]?
    let words: [UInt32]?
}

struct Binding: Decodable {
    let binding, buffer, offset: Int
}

struct Member: Decodable {
    let offset: Int
    let type: String
    let value: Double
}

struct Parameters: Decodable {
    let binding, bytes: Int
    let members: [Member]
}

struct Dispatch: Decodable {
    let file, entryPoint: String
    let workgroupSize, grid: [Int]
    let bindings: [Binding]
    let parameters: Parameters
}

struct Interface: Decodable {
    let buffers: [Buffer]
    let dispatches: [Dispatch]
}

/// What a buffer holds at first: operands in float32 are random, of other types zero; results NaN, so that what is not
/// written shows.
func initial(_ row: Buffer) -> Data {
    var data = Data(count: max(row.bytes, 16))
    data.withUnsafeMutableBytes { (memory: UnsafeMutableRawBufferPointer) in
        switch (row.kind, row.dtype) {
        case ("counts", _):
            for (place, word) in (row.words ?? []).enumerated() {
                memory.storeBytes(of: word, toByteOffset: 4 * place, as: UInt32.self)
            }
        case ("operand", "float32"?):
            for place in 0..<(row.bytes / 4) {
                memory.storeBytes(of: Float.random(in: 0..<1), toByteOffset: 4 * place, as: Float.self)
            }
        case ("operand", _):
            break
        default:
            for place in 0..<memory.count { memory[place] = 0xff }
        }
    }
    return data
}

/// The parameters of a dispatch, 4 bytes each.
func packed(_ block: Parameters) -> Data {
    var data = Data(count: block.bytes)
    data.withUnsafeMutableBytes { (memory: UnsafeMutableRawBufferPointer) in
        for member in block.members {
            let bits: UInt32
            switch member.type {
            case "float": bits = Float(member.value).bitPattern
            case "int": bits = UInt32(bitPattern: Int32(member.value))
            default: bits = UInt32(member.value)
            }
            memory.storeBytes(of: bits, toByteOffset: member.offset, as: UInt32.self)
        }
    }
    return data
}

func size(_ extent: [Int]) -> MTLSize {
    MTLSize(width: extent[0], height: extent[1], depth: extent[2])
}

guard CommandLine.arguments.count == 2 else { fatalError("usage: launch_metal INTERFACE.json") }
let path = URL(fileURLWithPath: CommandLine.arguments[1])
let decoder = JSONDecoder()
decoder.keyDecodingStrategy = .convertFromSnakeCase
let interface = try decoder.decode(Interface.self, from: Data(contentsOf: path))
guard let device = MTLCreateSystemDefaultDevice(), let queue = device.makeCommandQueue() else {
    fatalError("there is no Metal device")
}

let buffers: [MTLBuffer] = interface.buffers.map { row in
    let data = initial(row)
    return data.withUnsafeBytes { (memory: UnsafeRawBufferPointer) in
        device.makeBuffer(bytes: memory.baseAddress!, length: data.count, options: .storageModeShared)!
    }
}

// The kernels' exponentials and roundings depend on the order of operations.
let options = MTLCompileOptions()
options.fastMathEnabled = false

let commands = queue.makeCommandBuffer()!
for row in interface.dispatches {
    let file = path.deletingLastPathComponent().appendingPathComponent(row.file)
    let library = try device.makeLibrary(source: String(contentsOf: file, encoding: .utf8), options: options)
    let pipeline = try device.makeComputePipelineState(function: library.makeFunction(name: row.entryPoint)!)
    let encoder = commands.makeComputeCommandEncoder()!
    encoder.setComputePipelineState(pipeline)
    for one in row.bindings {
        encoder.setBuffer(buffers[one.buffer], offset: one.offset, index: one.binding)
    }
    if !row.parameters.members.isEmpty {
        let block = packed(row.parameters)
        block.withUnsafeBytes { (memory: UnsafeRawBufferPointer) in
            encoder.setBytes(memory.baseAddress!, length: block.count, index: row.parameters.binding)
        }
    }
    encoder.dispatchThreadgroups(size(row.grid), threadsPerThreadgroup: size(row.workgroupSize))
    encoder.endEncoding()
}
commands.commit()
commands.waitUntilCompleted()
if let error = commands.error { fatalError("\(error)") }

for (row, buffer) in zip(interface.buffers, buffers) where row.kind == "result" && row.dtype == "float32" {
    let values = buffer.contents().bindMemory(to: Float.self, capacity: 4)
    print(device.name, row.name, row.shape ?? [], (0..<min(4, row.bytes / 4)).map { values[$0] })
}
