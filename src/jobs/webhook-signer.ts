import { createHmac } from 'node:crypto';
import { Compile } from 'typebox/schema';
import type { WebhookSecretObject } from '../contract/jobs.ts';
import { rotationSchema } from '../contract/keys.ts';
import { validate } from '../core/schema.ts';
import { derivedKeys, type SecretKeys } from '../core/secret.ts';

/** How often a tenant has rotated its webhook secret. */
export interface WebhookRotation {
  readonly number: number;
  /** Until when webhooks are also signed with the previous secret; null before any rotation. */
  readonly previousUntil: number | null;
}

export interface WebhookRotations {
  find(tenantId: string): Promise<WebhookRotation>;
  /** Increments the number. */
  rotate(tenantId: string, previousUntil: number, now: number): Promise<WebhookRotation>;
}

/** Unlike a key, a webhook can't be sent by a client that has the new secret already. */
const defaultOverlapSeconds = 86_400;

const rotationCheck = Compile(rotationSchema);

/**
 * Signs webhooks as Standard Webhooks specifies, with one secret per tenant. The secrets are
 * derived from the operator's secret key and the number of rotations, so every process can compute
 * them, and none are stored.
 */
export class WebhookSigner {
  readonly #keys: ReturnType<typeof derivedKeys>;
  readonly #rotations: WebhookRotations;

  constructor(secrets: SecretKeys, rotations: WebhookRotations) {
    this.#keys = derivedKeys(secrets, 'webhook secrets');
    this.#rotations = rotations;
  }

  /** Returns the secret that the tenant needs to verify signatures. */
  async show(tenantId: string, now: number): Promise<WebhookSecretObject> {
    return this.#secretObject(tenantId, await this.#rotations.find(tenantId), now);
  }

  /** Replaces the secret. The body says for how long webhooks are signed with both. Throws 400. */
  async rotate(tenantId: string, body: unknown, now: number): Promise<WebhookSecretObject> {
    const input = validate(rotationCheck, rotationSchema, body);
    const until = now + (input.overlap_seconds ?? defaultOverlapSeconds) * 1000;
    return this.#secretObject(tenantId, await this.#rotations.rotate(tenantId, until, now), now);
  }

  async headers(
    tenantId: string,
    id: string,
    sentAt: number,
    body: string,
  ): Promise<Record<string, string>> {
    const rotation = await this.#rotations.find(tenantId);
    const numbers = [rotation.number];
    if (isOverlapping(rotation, sentAt)) numbers.push(rotation.number - 1);
    const timestamp = String(Math.floor(sentAt / 1000));
    const signed = `${id}.${timestamp}.${body}`;
    // One signature per valid secret, so that receivers can also verify with their previous secret.
    const signatures = numbers.flatMap((number) =>
      this.#keys.map((key) => {
        const hmac = createHmac('sha256', secretFrom(key, tenantId, number));
        return `v1,${hmac.update(signed).digest('base64')}`;
      }),
    );
    return {
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': signatures.join(' '),
    };
  }

  #secretObject(tenantId: string, rotation: WebhookRotation, now: number): WebhookSecretObject {
    const secret = secretFrom(this.#keys[0], tenantId, rotation.number);
    const previousUntil = isOverlapping(rotation, now) ? rotation.previousUntil : null;
    return {
      secret: `whsec_${secret.toString('base64')}`,
      previous_secret_expires_at:
        previousUntil === null ? null : new Date(previousUntil).toISOString(),
    };
  }
}

function isOverlapping({ number, previousUntil }: WebhookRotation, now: number): boolean {
  return number > 0 && (previousUntil ?? 0) > now;
}

/** Tenant IDs have no line breaks, so two tenants can't produce the same input. */
function secretFrom(key: Uint8Array, tenantId: string, number: number): Buffer {
  const input = number === 0 ? tenantId : `${tenantId}\n${number}`;
  return createHmac('sha256', key).update(input).digest();
}
