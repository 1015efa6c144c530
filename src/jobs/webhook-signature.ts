import { createHmac } from 'node:crypto';
import { derivedKeys, type SecretKeys } from '../core/secret.ts';

/**
 * Signs messages as Standard Webhooks lays down, with a secret of each tenant's own. The secrets
 * are derived, so that none is kept and every process knows them all.
 */
export class WebhookSigner {
  readonly #keys: ReturnType<typeof derivedKeys>;

  constructor(...secrets: SecretKeys) {
    this.#keys = derivedKeys(secrets, 'webhook secrets');
  }

  /** What the tenant's receivers verify with. */
  secretOf(tenantId: string): string {
    return `whsec_${secretFrom(this.#keys[0], tenantId).toString('base64')}`;
  }

  headers(tenantId: string, id: string, sentAt: number, body: string): Record<string, string> {
    const timestamp = String(Math.floor(sentAt / 1000));
    const signed = `${id}.${timestamp}.${body}`;
    // One for each secret: a receiver that has not fetched the newest one goes on by the former.
    const signatures = this.#keys.map((key) => {
      const hmac = createHmac('sha256', secretFrom(key, tenantId));
      return `v1,${hmac.update(signed).digest('base64')}`;
    });
    return {
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': signatures.join(' '),
    };
  }
}

function secretFrom(key: Uint8Array, tenantId: string): Buffer {
  return createHmac('sha256', key).update(tenantId).digest();
}
