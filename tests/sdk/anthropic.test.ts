import Anthropic from '@anthropic-ai/sdk';
import { anthropicSuite } from './anthropic-suite.ts';

anthropicSuite("Anthropic's SDK", (options) => new Anthropic({ ...options, maxRetries: 0 }));
