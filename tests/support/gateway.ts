/**
 * A real gateway for whole-system tests: its own process, its own folder, and an environment that
 * holds nothing of this machine's.
 *
 *   const upstream = startFakeUpstream();
 *   await using gateway = await startGateway({
 *     upstreams: { fake: { url: upstream.url, models: { 'test/chat': { prompt: '1' } } } },
 *   });
 *   const answer = await gateway.chat({ model: 'test/chat', messages });
 *   expect(await gateway.balance()).toBe(10_000_000 - 3);
 *
 * Leaving the block stops the gateway, and fails the test if it crashed or left with an error.
 */

export { newFolder } from './gateway/cleanup-shell.ts';
export { type Answer, type Call, ChatStream } from './gateway/client.ts';
export { type UpstreamConfig, upstreamConfig } from './gateway/config.ts';
export { type Gateway, type GatewayOptions, startGateway } from './gateway/running.ts';
export { type Finished, type Keys, run, spawnTollgate } from './gateway/spawn.ts';
