import Anthropic from 'anthropic-sdk-0';
import { type AnthropicSdk, testAnthropicSdk } from './anthropic-tests.ts';

/** The types of this version are older, but the methods that the tests call are the same. */
await testAnthropicSdk(
  '@anthropic-ai/sdk 0.x',
  (options) => new Anthropic(options) as unknown as AnthropicSdk,
);
