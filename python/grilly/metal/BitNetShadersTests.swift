// What to run first on a Mac: swift test. By grilly, MIT licence.
//
// Not compiled by Apple's compiler and not run on a GPU.

import Metal
import XCTest

@testable import BitNetShaders

final class BitNetShadersTests: XCTestCase {
    func testEveryFunctionHasAPipeline() throws {
        let (_, _, shaders) = try initializeMetalContext()
        for function in BitNetShaderFunction.allCases {
            let pipeline = try shaders.getPipeline(function)
            XCTAssertGreaterThan(pipeline.maxTotalThreadsPerThreadgroup, 0, function.rawValue)
        }
    }

    func testASignedProduct() throws {
        let (device, queue, shaders) = try initializeMetalContext()
        let rows = (0..<16).map { Float($0) - 7.5 }
        let input = try XCTUnwrap(device.makeBuffer(bytes: rows, length: 64, options: .storageModeShared))
        let signs: [UInt8] = [0b1111_1111, 0b0000_1111, 0]
        let weights = try XCTUnwrap(device.makeBuffer(bytes: signs, length: 3, options: .storageModeShared))
        let output = try XCTUnwrap(device.makeBuffer(length: 24, options: .storageModeShared))
        let commands = try XCTUnwrap(queue.makeCommandBuffer())
        let encoder = try createBitlinearForwardEncoder(shaders, commands)
        let (threads, threadgroup) = try shaders.calculateDispatchParams(.bitlinearForward, 6)
        dispatchBitlinearForward(
            encoder, input: input, weights: weights, output: output, inputSize: 8, outputSize: 3, batchSize: 2,
            threads: threads, threadgroup: threadgroup)
        encoder.endEncoding()
        commands.commit()
        commands.waitUntilCompleted()
        XCTAssertNil(commands.error)
        let found = output.contents().bindMemory(to: Float.self, capacity: 6)
        // Activations are rounded to 1/127 of the largest of their row.
        for (place, expected) in [-32, -16, 32, 32, -16, -32].enumerated() {
            XCTAssertEqual(found[place], Float(expected), accuracy: 0.25)
        }
    }
}
