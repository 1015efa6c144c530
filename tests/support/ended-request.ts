import type { EndedRequest } from '../../src/telemetry/ended-request.ts';

/** Returns a successful request of 10 input and 4 output tokens for 18 credits, with changes. */
export function endedRequest(fields: Partial<EndedRequest> = {}): EndedRequest {
  return {
    requestId: '00000000-0000-4000-8000-000000000001',
    tenantId: 'default',
    keyId: 'key_1',
    operation: 'chat',
    requestedModel: 'test/chat',
    model: 'test/chat',
    provider: 'first',
    status: 'success',
    error: null,
    trafficMode: 'shared',
    usage: {
      inputTokens: 10,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      outputTokens: 4,
      reasoningTokens: 0,
    },
    usageEstimated: false,
    charges: { modelCharge: 18, byokPlatformFee: 0, managedToolFee: 0, agentRuntimeFee: 0 },
    finishReason: 'stop',
    streamed: false,
    cancelled: false,
    cacheHit: false,
    firstByteMs: 20,
    durationMs: 30,
    attempts: [{ provider: 'first', model: 'test/chat', outcome: 'answered', status: 200, ms: 20 }],
    ...fields,
  };
}
