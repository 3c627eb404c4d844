"""The endpoints, by subject: each module declares what stands at its addresses."""
