// Runs an exported kernel on a GPU through Direct3D 12; needs nlohmann/json (vcpkg install nlohmann-json), no grilly.
// python -m grilly export softmax_dropout --target hlsl --option p=0.0 --rows 4 --out softmax.hlsl
// dxc -T cs_6_0 -Gis -Fo softmax.dxil softmax.hlsl
// cl /std:c++17 /EHsc examples\launch_d3d12.cpp d3d12.lib && launch_d3d12 softmax.json

#define NOMINMAX
#include <d3d12.h>
#include <wrl/client.h>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
using Json = nlohmann::json;
using Microsoft::WRL::ComPtr;
static void check(HRESULT status, const char* what) {
    if (FAILED(status)) throw std::runtime_error(std::string(what) + " failed with " + std::to_string(status));
}

static std::vector<char> bytes_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path.string() + " cannot be read");
    return {std::istreambuf_iterator<char>(file), {}};
}

// Memory of both the processor and the GPU. At first operands in float32 are random, of other types zero;
// results are NaN, so that what is not written shows.
static ComPtr<ID3D12Resource> buffer_of(ID3D12Device* device, const Json& row) {
    const UINT64 size = std::max<UINT64>(row["bytes"].get<UINT64>(), 16);
    const D3D12_HEAP_PROPERTIES heap = {D3D12_HEAP_TYPE_CUSTOM, D3D12_CPU_PAGE_PROPERTY_WRITE_BACK,
                                        D3D12_MEMORY_POOL_L0};
    const D3D12_RESOURCE_DESC desc = {D3D12_RESOURCE_DIMENSION_BUFFER, 0, size, 1, 1, 1, DXGI_FORMAT_UNKNOWN, {1, 0},
                                      D3D12_TEXTURE_LAYOUT_ROW_MAJOR, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS};
    ComPtr<ID3D12Resource> made;
    check(device->CreateCommittedResource(&heap, D3D12_HEAP_FLAG_NONE, &desc, D3D12_RESOURCE_STATE_COMMON, nullptr,
                                          IID_PPV_ARGS(&made)), "CreateCommittedResource");
    void* memory = nullptr;
    check(made->Map(0, nullptr, &memory), "Map");
    static std::mt19937 random;
    const std::string kind = row["kind"];
    std::memset(memory, kind == "operand" || kind == "counts" ? 0 : 0xff, size);
    if (kind == "counts") {
        const auto words = row["words"].get<std::vector<UINT32>>();
        std::memcpy(memory, words.data(), 4 * words.size());
    } else if (kind == "operand" && row["dtype"] == "float32") {
        for (UINT64 i = 0; i < row["bytes"].get<UINT64>() / 4; i++)
            static_cast<float*>(memory)[i] = std::uniform_real_distribution<float>()(random);
    }
    made->Unmap(0, nullptr);
    return made;
}

// The parameters of a dispatch, 4 bytes each.
static std::vector<UINT32> packed(const Json& block) {
    std::vector<UINT32> words(block["bytes"].get<size_t>() / 4);
    for (const Json& member : block["members"]) {
        UINT32& word = words[member["offset"].get<size_t>() / 4];
        const float value = member["value"].get<float>();
        if (member["type"] == "float") std::memcpy(&word, &value, 4);
        else word = static_cast<UINT32>(member["value"].get<INT64>());
    }
    return words;
}

// A buffer per binding (t for what is read, u for others), then the parameters (b), then the three numbers of the grid.
static ComPtr<ID3D12RootSignature> signature_of(ID3D12Device* device, const Json& row, UINT words) {
    std::vector<D3D12_ROOT_PARAMETER> parameters;
    for (const Json& one : row["bindings"]) {
        parameters.emplace_back();
        const bool read = one["access"] == "read";
        parameters.back().ParameterType = read ? D3D12_ROOT_PARAMETER_TYPE_SRV : D3D12_ROOT_PARAMETER_TYPE_UAV;
        parameters.back().Descriptor.ShaderRegister = one["binding"];
    }
    for (UINT count : {words, 3u}) {
        const UINT place = static_cast<UINT>(parameters.size());
        parameters.emplace_back();
        parameters.back().ParameterType = D3D12_ROOT_PARAMETER_TYPE_32BIT_CONSTANTS;
        parameters.back().Constants = {place, 0, std::max(count, 1u)};
    }
    const D3D12_ROOT_SIGNATURE_DESC desc = {static_cast<UINT>(parameters.size()), parameters.data()};
    ComPtr<ID3DBlob> blob;
    check(D3D12SerializeRootSignature(&desc, D3D_ROOT_SIGNATURE_VERSION_1, &blob, nullptr), "the root signature");
    ComPtr<ID3D12RootSignature> made;
    const HRESULT status =
        device->CreateRootSignature(0, blob->GetBufferPointer(), blob->GetBufferSize(), IID_PPV_ARGS(&made));
    check(status, "CreateRootSignature");
    return made;
}

// Runs one dispatch to its end, with which the states of all buffers are common again.
static void dispatch(ID3D12Device* device, const Json& row, const std::filesystem::path& folder,
                     const std::vector<ComPtr<ID3D12Resource>>& buffers) {
    const std::vector<UINT32> words = packed(row["parameters"]);
    auto code = bytes_of(folder / std::filesystem::path(row["file"].get<std::string>()).replace_extension("dxil"));
    const auto signature = signature_of(device, row, static_cast<UINT>(words.size()));
    const D3D12_COMPUTE_PIPELINE_STATE_DESC desc = {signature.Get(), {code.data(), code.size()}};
    const D3D12_COMMAND_QUEUE_DESC kind = {D3D12_COMMAND_LIST_TYPE_COMPUTE};
    ComPtr<ID3D12PipelineState> pipeline;
    check(device->CreateComputePipelineState(&desc, IID_PPV_ARGS(&pipeline)), "CreateComputePipelineState");
    ComPtr<ID3D12CommandQueue> queue;
    check(device->CreateCommandQueue(&kind, IID_PPV_ARGS(&queue)), "CreateCommandQueue");
    ComPtr<ID3D12CommandAllocator> allocator;
    check(device->CreateCommandAllocator(kind.Type, IID_PPV_ARGS(&allocator)), "CreateCommandAllocator");
    ComPtr<ID3D12GraphicsCommandList> list;
    check(device->CreateCommandList(0, kind.Type, allocator.Get(), pipeline.Get(), IID_PPV_ARGS(&list)), "the list");
    list->SetComputeRootSignature(signature.Get());
    UINT place = 0;
    for (const Json& one : row["bindings"]) {
        const auto at = buffers[one["buffer"].get<size_t>()]->GetGPUVirtualAddress() + one["offset"].get<UINT64>();
        if (one["access"] == "read") list->SetComputeRootShaderResourceView(place++, at);
        else list->SetComputeRootUnorderedAccessView(place++, at);
    }
    const auto grid = row["grid"].get<std::vector<UINT32>>();
    if (!words.empty()) list->SetComputeRoot32BitConstants(place, static_cast<UINT>(words.size()), words.data(), 0);
    list->SetComputeRoot32BitConstants(place + 1, 3, grid.data(), 0);
    list->Dispatch(grid[0], grid[1], grid[2]);
    check(list->Close(), "Close");
    ID3D12CommandList* const ready = list.Get();
    queue->ExecuteCommandLists(1, &ready);
    ComPtr<ID3D12Fence> fence;
    check(device->CreateFence(0, D3D12_FENCE_FLAG_NONE, IID_PPV_ARGS(&fence)), "CreateFence");
    check(queue->Signal(fence.Get(), 1), "Signal");
    check(fence->SetEventOnCompletion(1, nullptr), "SetEventOnCompletion");  // without an event it waits
}

int main(int count, char** arguments) try {
    if (count != 2) throw std::runtime_error("usage: launch_d3d12 INTERFACE.json");
    const std::filesystem::path path = arguments[1];
    const Json kernel = Json::parse(bytes_of(path));
    ComPtr<ID3D12Device> device;
    check(D3D12CreateDevice(nullptr, D3D_FEATURE_LEVEL_11_0, IID_PPV_ARGS(&device)), "D3D12CreateDevice");
    std::vector<ComPtr<ID3D12Resource>> buffers;
    for (const Json& row : kernel["buffers"]) buffers.push_back(buffer_of(device.Get(), row));
    for (const Json& row : kernel["dispatches"]) dispatch(device.Get(), row, path.parent_path(), buffers);
    for (size_t place = 0; place < buffers.size(); place++) {
        const Json& row = kernel["buffers"][place];
        if (row["kind"] != "result" || row["dtype"] != "float32") continue;
        void* memory = nullptr;
        check(buffers[place]->Map(0, nullptr, &memory), "Map");
        std::printf("%s:", (row["name"].get<std::string>() + " " + row["shape"].dump()).c_str());
        for (UINT64 i = 0; i < std::min<UINT64>(4, row["bytes"].get<UINT64>() / 4); i++)
            std::printf(" %g", static_cast<float*>(memory)[i]);
        std::printf("\n");
    }
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
