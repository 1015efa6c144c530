import Anthropic from '@anthropic-ai/sdk';
import { testAnthropicSdk } from './anthropic-tests.ts';

await testAnthropicSdk('@anthropic-ai/sdk', (options) => new Anthropic(options));
