import Anthropic from 'anthropic-sdk-0';
import { type AnthropicSdk, anthropicSuite } from './anthropic-suite.ts';

/** Its types are older; what the suite does with them is the same. */
anthropicSuite(
  "the last 0.x of Anthropic's SDK",
  (options) => new Anthropic({ ...options, maxRetries: 0 }) as unknown as AnthropicSdk,
);
