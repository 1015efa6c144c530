// A real gateway for system tests. It has its own process and folder, and none of this machine's
// environment variables.
//
//   const upstream = startFakeUpstream();
//   await using gateway = await startGateway({
//     upstreams: { fake: { url: upstream.url, models: { 'test/chat': { prompt: '1' } } } },
//   });
//   const answer = await gateway.chat({ model: 'test/chat', messages });
//   expect(await gateway.balance()).toBe(10_000_000 - 3);
//
// At the end of the block the gateway is stopped. The test fails if it crashed or exited with an
// error.

export { newFolder } from './gateway/cleanup-shell.ts';
export { type Answer, type Call, ChatStream } from './gateway/client.ts';
export { type UpstreamConfig, upstreamConfig } from './gateway/config.ts';
export {
  firstStartSecrets,
  type Gateway,
  type GatewayOptions,
  startGateway,
} from './gateway/running.ts';
export { type Finished, type Keys, run, spawnTollgate } from './gateway/spawn.ts';
