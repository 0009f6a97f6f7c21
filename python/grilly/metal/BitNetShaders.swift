// BitNet's functions on a GPU of Apple's: devices, shaders, pipelines and encoders. By grilly, MIT licence.
//
// Not compiled by Apple's compiler and not run on a GPU.

import Foundation
import Metal

/// What may go wrong, with the facts.
public enum BitNetError: Error, CustomStringConvertible {
    case noDevice
    case noEncoder
    case shaderNotFound(shader: String, folder: String)
    case functionNotFound(function: String, shader: String, known: [String])
    case compilationFailed(shader: String, reason: String)
    case pipelineCreationFailed(function: String, reason: String)
    case noGlobalShaders

    public var description: String {
        switch self {
        case .noDevice:
            return "there is no Metal device"
        case .noEncoder:
            return "the command buffer gives no encoder: it is committed already, or another encoder has not ended"
        case let .shaderNotFound(shader, folder):
            return "Shader '\(shader)' not found: there is no \(shader).metal in \(folder)"
        case let .functionNotFound(function, shader, known):
            return "Function '\(function)' not found in shader '\(shader)', which has \(known.joined(separator: ", "))"
        case let .compilationFailed(shader, reason):
            return "Failed to compile shader '\(shader)': \(reason)"
        case let .pipelineCreationFailed(function, reason):
            return "Failed to create pipeline for function '\(function)': \(reason)"
        case .noGlobalShaders:
            return "there are no global shaders: call initializeGlobalShaders first"
        }
    }
}

/// The system's default device.
public func createMetalDevice() throws -> MTLDevice {
    guard let device = MTLCreateSystemDefaultDevice() else { throw BitNetError.noDevice }
    return device
}

/// The device of `createMetalDevice`, a queue of its commands, and its functions.
public func initializeMetalContext() throws -> (MTLDevice, MTLCommandQueue, BitNetShaders) {
    let device = try createMetalDevice()
    guard let queue = device.makeCommandQueue() else { throw BitNetError.noDevice }
    return (device, queue, BitNetShaders(device: device))
}

/// Compiles the `.metal` files of a folder, each when it is first asked for.
public final class ShaderCompiler {
    public let device: MTLDevice
    /// The folder of the files; by default that of this package.
    public let directory: URL
    private var libraries: [String: MTLLibrary] = [:]
    private let lock = NSLock()

    public init(device: MTLDevice, directory: URL? = nil) {
        self.device = device
        self.directory = directory ?? Bundle.module.resourceURL ?? Bundle.module.bundleURL
    }

    /// The library of every file, by its name without the ending; the error names every file that does not compile.
    public func compileAllShaders() throws -> [String: MTLLibrary] {
        let files = (try? FileManager.default.contentsOfDirectory(at: directory, includingPropertiesForKeys: nil)) ?? []
        var compiled: [String: MTLLibrary] = [:]
        var failed: [String: String] = [:]
        for file in files where file.pathExtension == "metal" {
            let shader = file.deletingPathExtension().lastPathComponent
            do { compiled[shader] = try library(shader) } catch { failed[shader] = "\(error)" }
        }
        if !failed.isEmpty {
            let names = failed.keys.sorted()
            let reasons = names.compactMap { failed[$0] }
            throw BitNetError.compilationFailed(
                shader: names.joined(separator: ", "), reason: reasons.joined(separator: "\n"))
        }
        return compiled
    }

    /// A function of a file.
    public func getComputeFunction(_ shader: String, _ function: String) throws -> MTLFunction {
        let library = try self.library(shader)
        guard let found = library.makeFunction(name: function) else {
            throw BitNetError.functionNotFound(function: function, shader: shader, known: library.functionNames)
        }
        return found
    }

    private func library(_ shader: String) throws -> MTLLibrary {
        lock.lock()
        defer { lock.unlock() }
        if let known = libraries[shader] { return known }
        let file = directory.appendingPathComponent("\(shader).metal")
        guard let source = try? String(contentsOf: file, encoding: .utf8) else {
            throw BitNetError.shaderNotFound(shader: shader, folder: directory.path)
        }
        let options = MTLCompileOptions()
        // Roundings and tests for NaN depend on it.
        options.fastMathEnabled = false
        options.languageVersion = .version2_1
        do {
            let made = try device.makeLibrary(source: source, options: options)
            libraries[shader] = made
            return made
        } catch {
            throw BitNetError.compilationFailed(shader: shader, reason: "\(error)")
        }
    }
}

/// A compiler of this package's shaders.
public func createShaderCompiler(_ device: MTLDevice) -> ShaderCompiler {
    ShaderCompiler(device: device)
}

/// The functions on a device.
public final class BitNetShaders {
    public let device: MTLDevice
    public let compiler: ShaderCompiler
    private var pipelines: [String: MTLComputePipelineState] = [:]
    private let lock = NSLock()

    public init(device: MTLDevice, compiler: ShaderCompiler? = nil) {
        self.device = device
        self.compiler = compiler ?? ShaderCompiler(device: device)
    }

    /// The pipeline of a function of the package.
    public func getPipeline(_ function: BitNetShaderFunction) throws -> MTLComputePipelineState {
        try getPipeline(shader: function.shader, function: function.rawValue)
    }

    /// The pipeline of any function of the compiler's folder.
    public func getPipeline(shader: String, function: String) throws -> MTLComputePipelineState {
        lock.lock()
        defer { lock.unlock() }
        let key = "\(shader):\(function)"
        if let known = pipelines[key] { return known }
        let compiled = try compiler.getComputeFunction(shader, function)
        do {
            let made = try device.makeComputePipelineState(function: compiled)
            pipelines[key] = made
            return made
        } catch {
            throw BitNetError.pipelineCreationFailed(function: function, reason: "\(error)")
        }
    }

    /// An encoder with the pipeline of a function.
    public func createComputeEncoderWithPipeline(
        _ commandBuffer: MTLCommandBuffer, _ function: BitNetShaderFunction
    ) throws -> MTLComputeCommandEncoder {
        let pipeline = try getPipeline(function)
        guard let encoder = commandBuffer.makeComputeCommandEncoder() else { throw BitNetError.noEncoder }
        encoder.setComputePipelineState(pipeline)
        return encoder
    }

    /// Threads of a dispatch for a result of so many elements, and those of a threadgroup: whole SIMD groups, at most 256.
    public func calculateDispatchParams(
        _ function: BitNetShaderFunction, _ dataSize: Int
    ) throws -> (threads: MTLSize, threadgroup: MTLSize) {
        let pipeline = try getPipeline(function)
        let width = pipeline.threadExecutionWidth
        let size = max(min(256, pipeline.maxTotalThreadsPerThreadgroup) / width * width, 1)
        // Each threadgroup finds a scale of the whole tensor itself.
        let threads = function.sharesOneScale ? size : max(dataSize, 1)
        return (MTLSize(width: threads, height: 1, depth: 1), MTLSize(width: size, height: 1, depth: 1))
    }
}

extension BitNetShaderFunction {
    /// Whether all elements share a scale, which the function finds first.
    public var sharesOneScale: Bool {
        self == .binarizeWeights || self == .dynamicQuantizeActivations || self == .quantizeGradients
    }
}

/// Adds a command with at least so many threads along x.
public func dispatchCompute(_ encoder: MTLComputeCommandEncoder, _ threads: MTLSize, _ threadgroup: MTLSize) {
    let groups = (threads.width + threadgroup.width - 1) / threadgroup.width
    encoder.dispatchThreadgroups(MTLSize(width: groups, height: 1, depth: 1), threadsPerThreadgroup: threadgroup)
}

/// Sets buffers from index 0 on and the parameters at the next, and adds a command.
func dispatch(
    _ encoder: MTLComputeCommandEncoder, _ buffers: [MTLBuffer], _ parameters: [UInt32], _ threads: MTLSize,
    _ threadgroup: MTLSize
) {
    for (index, buffer) in buffers.enumerated() {
        encoder.setBuffer(buffer, offset: 0, index: index)
    }
    encoder.setBytes(parameters, length: 4 * parameters.count, index: buffers.count)
    dispatchCompute(encoder, threads, threadgroup)
}

private var held: BitNetShaders?
private let holding = NSLock()

/// Makes the functions on a device those of the process, unless there are some.
public func initializeGlobalShaders(_ device: MTLDevice) {
    holding.lock()
    defer { holding.unlock() }
    held = held ?? BitNetShaders(device: device)
}

/// Those of `initializeGlobalShaders`.
public func globalShaders() throws -> BitNetShaders {
    holding.lock()
    defer { holding.unlock() }
    guard let shaders = held else { throw BitNetError.noGlobalShaders }
    return shaders
}
