package sandbox

import (
	"crypto/rand"
	"time"
)

// customerObject has the members of a customer that matter to metering; the rest of Stripe's are absent.
type customerObject struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Created  int64             `json:"created"`
	Email    *string           `json:"email"`
	Livemode bool              `json:"livemode"`
	Metadata map[string]string `json:"metadata"`
	Name     *string           `json:"name"`
}

func (c Customer) object(live bool) customerObject {
	o := customerObject{ID: c.ID, Object: "customer", Created: c.created.Unix(), Livemode: live, Metadata: map[string]string{}}
	if c.Name != "" {
		o.Name = &c.Name
	}
	if c.Email != "" {
		o.Email = &c.Email
	}
	return o
}

// createCustomer serves POST /v1/customers.
func createCustomer(c *call) answer {
	p, err := c.form("name", "email", "description", "metadata[*]")
	if err != nil {
		return err.answer()
	}
	made := Customer{ID: "cus_" + rand.Text()[:14], Name: p["name"], Email: p["email"], created: c.sandbox.Now()}
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.world.customer[made.ID] = made
	return object(made.object(c.world.live))
}

// getCustomer serves GET /v1/customers/{id}. A customer that exists by pattern only is shown without a name.
func getCustomer(c *call) answer {
	id := c.request.PathValue("id")
	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	found, ok := w.customer[id]
	if !ok {
		if !w.knows(id) {
			return errNotFound("customer", id, "id").answer()
		}
		found = Customer{ID: id, created: time.Unix(0, 0)}
	}
	return object(found.object(w.live))
}

// accountObject has the members of an account that tell a client whose key it holds.
type accountObject struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	Type   string `json:"type"`
}

// getAccount serves GET /v1/account: the account of the key, or of Stripe-Account.
func getAccount(c *call) answer {
	return object(accountObject{ID: c.world.account, Object: "account", Type: "standard"})
}
