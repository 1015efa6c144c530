import { aliases } from './aliases.ts';
import { audit } from './audit.ts';
import { byok } from './byok.ts';
import type { Topic } from './command.ts';
import { config } from './config.ts';
import { connect } from './connect.ts';
import { credits } from './credits.ts';
import { doctor } from './doctor.ts';
import { health } from './health.ts';
import { keys } from './keys.ts';
import { ledger } from './ledger.ts';
import { licenses } from './licenses.ts';
import { models } from './models.ts';
import { move } from './move.ts';
import { plans } from './plans.ts';
import { prices } from './prices.ts';
import { providers } from './providers.ts';
import { secret } from './secret.ts';
import { serve } from './serve.ts';
import { settings } from './settings.ts';
import { skills } from './skills.ts';
import { tenants } from './tenants.ts';
import { why } from './why.ts';

/** All topics, in the order in which the help lists them. */
export const topics: readonly Topic[] = [
  serve,
  tenants,
  keys,
  credits,
  byok,
  secret,
  skills,
  ledger,
  move,
  why,
  audit,
  providers,
  models,
  aliases,
  prices,
  plans,
  settings,
  config,
  connect,
  health,
  doctor,
  licenses,
];
